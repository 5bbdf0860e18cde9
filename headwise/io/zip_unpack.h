// SPDX-License-Identifier: Apache-2.0
// The contents of a zip archive's members; zlib stays behind this header. Not installed.
#ifndef HEADWISE_IO_ZIP_UNPACK_H_
#define HEADWISE_IO_ZIP_UNPACK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "headwise/io/zip_directory.h"

namespace headwise {

// Unpacks the first target.size() bytes of a member, at most member.bytes of them, and no more than that is unpacked.
// When that is all of it, the checksum and the end of the deflated data are checked too. `path` is for messages, which
// name no member. Throws FileError. Memory: the target and 50 KiB.
void unpack_zip_member(std::string_view path, std::span<const std::byte> file, const ZipMember& member,
                       std::span<std::byte> target);

// CRC-32 of `bytes` behind others whose checksum is `before`.
std::uint32_t zip_checksum(std::span<const std::byte> bytes, std::uint32_t before = 0);

// Throws FileError when the checksum of all its bytes is not what the directory says.
void check_zip_checksum(std::string_view path, const ZipMember& member, std::span<const std::byte> unpacked);

}  // namespace headwise

#endif  // HEADWISE_IO_ZIP_UNPACK_H_
