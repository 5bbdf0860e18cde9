// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/zip_records.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "headwise/io/zip_fields.h"

namespace headwise {
namespace {

// {value, width} after {value, width}.
std::string fields(std::initializer_list<std::pair<std::uint64_t, unsigned>> list) {
  std::string bytes;
  for (const auto& [value, width] : list) append_zip_number(bytes, value, width);
  return bytes;
}

constexpr unsigned kMadeOnUnix = 3 << 8;
constexpr std::uint64_t kNewYear1980 = 0x21;  // 1 January; the year counts from 1980
constexpr std::uint64_t kReadableByAll = std::uint64_t{0100644} << 16;

std::uint64_t small_or_elsewhere(std::uint64_t value) { return std::min(value, kZipElsewhere32); }

unsigned version_needed(bool is_zip64) { return is_zip64 ? 45 : 20; }

unsigned name_flags(const std::string& name) {
  const bool is_ascii = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
  return is_ascii ? 0 : kZipUtf8Name;
}

std::string zip64_extra(std::initializer_list<std::uint64_t> values) {
  if (values.size() == 0) return "";
  std::string bytes = fields({{kZip64ExtraId, 2}, {8 * values.size(), 2}});
  for (const std::uint64_t value : values) append_zip_number(bytes, value, 8);
  return bytes;
}

}  // namespace

std::string zip_local_record(const ZipMember& member) {
  const bool is_zip64 = member.bytes >= kZipElsewhere32;
  const std::string extra = is_zip64 ? zip64_extra({member.bytes, member.bytes}) : "";
  return fields({{kZipLocalSignature, 4},
                 {version_needed(is_zip64), 2},
                 {name_flags(member.name), 2},
                 {kZipStored, 2},
                 {0, 2},
                 {kNewYear1980, 2},
                 {member.checksum, 4},
                 {small_or_elsewhere(member.bytes), 4},
                 {small_or_elsewhere(member.bytes), 4},
                 {member.name.size(), 2},
                 {extra.size(), 2}}) +
         member.name + extra;
}

std::string zip_entry_record(const ZipMember& member) {
  const bool is_large = member.bytes >= kZipElsewhere32, is_far = member.local_at >= kZipElsewhere32;
  const std::string extra = is_large && is_far ? zip64_extra({member.bytes, member.bytes, member.local_at})
                            : is_large         ? zip64_extra({member.bytes, member.bytes})
                            : is_far           ? zip64_extra({member.local_at})
                                               : "";
  const unsigned version = version_needed(is_large || is_far);
  return fields({{kZipEntrySignature, 4},
                 {kMadeOnUnix | version, 2},
                 {version, 2},
                 {name_flags(member.name), 2},
                 {kZipStored, 2},
                 {0, 2},
                 {kNewYear1980, 2},
                 {member.checksum, 4},
                 {small_or_elsewhere(member.bytes), 4},
                 {small_or_elsewhere(member.bytes), 4},
                 {member.name.size(), 2},
                 {extra.size(), 2},
                 {0, 2},
                 {0, 2},
                 {0, 2},
                 {kReadableByAll, 4},
                 {small_or_elsewhere(member.local_at), 4}}) +
         member.name + extra;
}

std::string zip_end_record(std::uint64_t count, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t bytes = end - begin;
  std::string record;
  if (count >= kZipElsewhere16 || bytes >= kZipElsewhere32 || begin >= kZipElsewhere32) {
    const unsigned version = version_needed(true);
    record = fields({{kZip64EndSignature, 4},
                     {kZip64EndBytes - 12, 8},
                     {kMadeOnUnix | version, 2},
                     {version, 2},
                     {0, 4},
                     {0, 4},
                     {count, 8},
                     {count, 8},
                     {bytes, 8},
                     {begin, 8},
                     {kZip64LocatorSignature, 4},
                     {0, 4},
                     {end, 8},
                     {1, 4}});
  }
  const std::uint64_t small_count = std::min(count, kZipElsewhere16);
  return record + fields({{kZipEndSignature, 4},
                          {0, 2},
                          {0, 2},
                          {small_count, 2},
                          {small_count, 2},
                          {small_or_elsewhere(bytes), 4},
                          {small_or_elsewhere(begin), 4},
                          {0, 2}});
}

}  // namespace headwise
