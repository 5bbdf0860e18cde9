// SPDX-License-Identifier: Apache-2.0
// A file's bytes in memory, read only and without a copy.
#ifndef HEADWISE_IO_MAPPED_FILE_H_
#define HEADWISE_IO_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>

namespace headwise {

// The bytes are those of the open file: whoever shortens it in place while it is mapped makes reading it fault.
class MappedFile {
 public:
  // Throws FileNotFound, or FileError for anything that is not a regular file or cannot be read. An empty file is fine.
  explicit MappedFile(std::string path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace headwise

#endif  // HEADWISE_IO_MAPPED_FILE_H_
