// SPDX-License-Identifier: Apache-2.0
// An npz file whose bytes are already here. Not installed.
#ifndef HEADWISE_IO_NPZ_ARCHIVE_H_
#define HEADWISE_IO_NPZ_ARCHIVE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/npz.h"
#include "headwise/io/zip_directory.h"

namespace headwise {

// As NpzFile, of borrowed bytes; `path` is for messages.
class NpzArchive {
 public:
  NpzArchive(std::string path, std::span<const std::byte> file);

  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  NpyHeader header(std::string_view name) const;
  NpzArray array(std::string_view name) const;

 private:
  const ZipMember& member(std::string_view name) const;
  NpyHeader header_of(const ZipMember& member) const;
  // "<path>: member 'a.npy'".
  std::string place_of(const ZipMember& member) const;

  std::string path_;
  std::span<const std::byte> file_;
  std::vector<ZipMember> members_;
};

}  // namespace headwise

#endif  // HEADWISE_IO_NPZ_ARCHIVE_H_
