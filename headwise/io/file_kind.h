// SPDX-License-Identifier: Apache-2.0
// The operating system's answers in words.
#ifndef HEADWISE_IO_FILE_KIND_H_
#define HEADWISE_IO_FILE_KIND_H_

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <system_error>

#include "headwise/io/file_error.h"

namespace headwise {

// "is a directory": for what is not a regular file.
inline std::string_view file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a pipe";
  if (S_ISSOCK(mode)) return "is a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "is a device";
  return "is a special file";
}

// Throws "x.npy: is a directory, not a file": SystemFileError for a directory, FileError for the rest.
[[noreturn]] inline void fail_not_a_file(std::string_view path, mode_t mode) {
  const std::string reason = std::string(file_kind(mode)) + ", not a file";
  if (S_ISDIR(mode)) throw SystemFileError(path, reason, EISDIR);
  throw FileError(path, reason);
}

// Throws SystemFileError "x.npy: cannot be written: No space left on device". strerror is not safe with threads.
[[noreturn]] inline void fail_by_system(std::string_view path, const std::string& what, int code) {
  throw SystemFileError(path, what + ": " + std::system_category().message(code), code);
}

}  // namespace headwise

#endif  // HEADWISE_IO_FILE_KIND_H_
