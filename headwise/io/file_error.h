// SPDX-License-Identifier: Apache-2.0
// What every reader and writer of files throws: "weights.safetensors: header is not JSON (byte 17)".
#ifndef HEADWISE_IO_FILE_ERROR_H_
#define HEADWISE_IO_FILE_ERROR_H_

#include <cerrno>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace headwise {

// A file that cannot be used as what it claims to be. ValueError in Python.
class FileError : public std::runtime_error {
 public:
  // The offset counts bytes from the start of the file; none where no byte is to blame.
  FileError(std::string_view path, std::string_view reason, std::optional<std::uint64_t> offset = std::nullopt);

  const std::string& path() const { return path_; }
  std::optional<std::uint64_t> offset() const { return offset_; }

 private:
  std::string path_;
  std::optional<std::uint64_t> offset_;
};

// What the operating system refused, with its error number. In Python the OSError of that number: FileNotFoundError,
// PermissionError, IsADirectoryError, ...
class SystemFileError : public FileError {
 public:
  SystemFileError(std::string_view path, std::string_view reason, int code) : FileError(path, reason), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

class FileNotFound : public SystemFileError {
 public:
  explicit FileNotFound(std::string_view path) : SystemFileError(path, "no such file", ENOENT) {}
};

// A name out of a file as it may stand in a message: in quotes, printable (see utf8.h), cut after 80 bytes.
std::string quote_name(std::string_view name);

}  // namespace headwise

#endif  // HEADWISE_IO_FILE_ERROR_H_
