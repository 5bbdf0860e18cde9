// SPDX-License-Identifier: Apache-2.0
// The numbers of a zip archive and its three records, as PKWARE's APPNOTE 6.3 lays them out. Not installed.
#ifndef HEADWISE_IO_ZIP_FIELDS_H_
#define HEADWISE_IO_ZIP_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headwise {

inline constexpr std::uint64_t kZipLocalSignature = 0x04034b50;
inline constexpr std::uint64_t kZipEntrySignature = 0x02014b50;
inline constexpr std::uint64_t kZipEndSignature = 0x06054b50;
inline constexpr std::uint64_t kZip64EndSignature = 0x06064b50;
inline constexpr std::uint64_t kZip64LocatorSignature = 0x07064b50;
inline constexpr std::uint64_t kZipDescriptorSignature = 0x08074b50;

// Their fixed parts.
inline constexpr std::size_t kZipLocalBytes = 30, kZipEntryBytes = 46, kZipEndBytes = 22;
inline constexpr std::size_t kZip64EndBytes = 56, kZip64LocatorBytes = 20;

// In a field of 4 or 2 bytes: the number stands in a zip64 field.
inline constexpr std::uint64_t kZipElsewhere32 = 0xFFFFFFFF, kZipElsewhere16 = 0xFFFF;
inline constexpr std::uint64_t kZip64ExtraId = 1;

inline constexpr unsigned kZipStored = 0, kZipDeflated = 8;

// Bits of a member's flags.
inline constexpr unsigned kZipEncrypted = 0x2041;     // bits 0, 6 and 13: encrypted, strongly, with masked headers
inline constexpr unsigned kZipDeflateHints = 0x0006;  // bits 1 and 2: how hard the packer tried
inline constexpr unsigned kZipSizesBehind = 0x0008;   // bit 3: checksum and sizes stand behind the data as well
inline constexpr unsigned kZipUtf8Name = 0x0800;      // bit 11

// The little-endian number in `count` bytes at `at`, which must be there.
inline std::uint64_t zip_number(std::span<const std::byte> bytes, std::uint64_t at, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

inline void append_zip_number(std::string& bytes, std::uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
}

}  // namespace headwise

#endif  // HEADWISE_IO_ZIP_FIELDS_H_
