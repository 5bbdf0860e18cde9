// SPDX-License-Identifier: Apache-2.0
// The operating system's answers in words.
#ifndef HEADWISE_IO_FILE_KIND_H_
#define HEADWISE_IO_FILE_KIND_H_

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <system_error>

namespace headwise {

// "is a directory": for what is not a regular file.
inline std::string_view file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a pipe";
  if (S_ISSOCK(mode)) return "is a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "is a device";
  return "is a special file";
}

// "No space left on device"; strerror is not safe with threads.
inline std::string system_message(int error) { return std::system_category().message(error); }

}  // namespace headwise

#endif  // HEADWISE_IO_FILE_KIND_H_
