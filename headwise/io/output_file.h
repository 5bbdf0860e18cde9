// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all.
#ifndef HEADWISE_IO_OUTPUT_FILE_H_
#define HEADWISE_IO_OUTPUT_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace headwise {

// Writes go to a temporary file in the target's folder; commit() makes it durable and gives it its name in one step.
// Destroyed before that, it leaves no trace, and a file already at `path` stays as it was.
class OutputFile {
 public:
  // Throws SystemFileError when the folder does not take a new file or `path` is a directory, FileError when it is a
  // device, pipe or socket. A symbolic link is followed.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // All throw SystemFileError ("cannot be written: No space left on device").
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  std::string path_;       // as the caller wrote it, for messages
  std::string target_;     // with links followed
  std::string temporary_;  // empty once it is gone
  int descriptor_ = -1;
};

// Removes the temporary files that killed processes left of writing `path`: regular files in its folder, of exactly the
// names that OutputFile gives, which no process is writing any more. Everything else stays; nothing is thrown.
void remove_stale_temporaries(const std::string& path);

}  // namespace headwise

#endif  // HEADWISE_IO_OUTPUT_FILE_H_
