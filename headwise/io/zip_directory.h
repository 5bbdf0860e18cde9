// SPDX-License-Identifier: Apache-2.0
// What a zip archive says it holds, with everything checked that does not need unpacking. Not installed.
#ifndef HEADWISE_IO_ZIP_DIRECTORY_H_
#define HEADWISE_IO_ZIP_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

struct ZipMember {
  std::string name;
  unsigned method = 0;  // kZipStored or kZipDeflated
  unsigned flags = 0;
  std::uint32_t checksum = 0;      // CRC-32 of what is unpacked
  std::uint64_t packed_bytes = 0;  // in the archive
  std::uint64_t bytes = 0;         // unpacked
  std::uint64_t local_at = 0;      // where its local header starts in the file
  std::uint64_t begin = 0;         // where its data starts in the file
  std::uint64_t declared_at = 0;   // where its directory entry starts, for messages
};

// Largest directory that is read.
inline constexpr std::uint64_t kMaxZipDirectoryBytes = std::uint64_t{8} << 20;
// A deflated byte gives at most so many.
inline constexpr std::uint64_t kMostInflation = 1032;

// What is wrong with a member's name ("is an absolute path"); nothing when it is a relative path in UTF-8.
std::optional<std::string_view> zip_name_fault(std::string_view name);

// The members in the directory's order, zip64 included. Throws FileError ("<path>: member 'a.npy' is encrypted (byte
// 92)") unless the members and the directory cover the file without hole or overlap, every local header agrees with the
// directory, no name comes twice, and every member is stored or deflated.
std::vector<ZipMember> read_zip_directory(std::string_view path, std::span<const std::byte> file);

// Sets `begin` from each local header and checks all that was said of the local headers above. The directory starts at
// `directory_at`. A part of read_zip_directory.
void check_zip_members(std::string_view path, std::span<const std::byte> file, std::uint64_t directory_at,
                       std::vector<ZipMember>& members);

// Replaces sizes that stand elsewhere by those of the zip64 field among a header's extra fields, which are the `count`
// bytes at `at`. `values` are 4-byte fields in the zip64 field's order; `who` starts the message. Throws FileError.
void read_zip64_extra(std::string_view path, std::span<const std::byte> file, std::uint64_t at, std::uint64_t count,
                      const std::string& who, std::span<std::uint64_t* const> values);

}  // namespace headwise

#endif  // HEADWISE_IO_ZIP_DIRECTORY_H_
