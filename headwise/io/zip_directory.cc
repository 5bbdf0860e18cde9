// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/zip_directory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/utf8.h"
#include "headwise/io/zip_fields.h"

namespace headwise {
namespace {

struct DirectoryPlace {
  std::uint64_t begin = 0, bytes = 0, count = 0;
};

// Reads the records behind the directory, from the end of the file backwards.
class EndReader {
 public:
  EndReader(std::string_view path, std::span<const std::byte> file) : path_(path), file_(file) {}

  DirectoryPlace read() {
    if (file_.size() < kZipEndBytes || number(end(), 4) != kZipEndSignature || number(end() + 20, 2) != 0) {
      throw FileError(path_, "does not end with a zip archive's last record: not an npz file, or cut short",
                      file_.size());
    }
    if (number(end() + 4, 2) != 0 || number(end() + 6, 2) != 0 || number(end() + 8, 2) != number(end() + 10, 2)) {
      fail("archive is one part of several", end() + 4);
    }
    DirectoryPlace place{number(end() + 16, 4), number(end() + 12, 4), number(end() + 10, 2)};
    std::uint64_t behind = end();
    const bool has_locator = end() >= kZip64LocatorBytes &&
                             number(end() - kZip64LocatorBytes, 4) == kZip64LocatorSignature &&
                             (is_elsewhere(place) || locator_points_here());
    if (has_locator) {
      place = read_zip64(place);
      behind = zip64_end();
    } else if (is_elsewhere(place)) {
      fail("archive has no zip64 record for its directory", end());
    }
    check(place, behind);
    return place;
  }

 private:
  [[noreturn]] void fail(std::string_view reason, std::uint64_t offset) const {
    throw FileError(path_, reason, offset);
  }
  std::uint64_t number(std::uint64_t at, unsigned count) const { return zip_number(file_, at, count); }
  std::uint64_t end() const { return file_.size() - kZipEndBytes; }
  std::uint64_t locator() const { return end() - kZip64LocatorBytes; }
  std::uint64_t zip64_end() const { return locator() - kZip64EndBytes; }

  static bool is_elsewhere(const DirectoryPlace& place) {
    return place.begin == kZipElsewhere32 || place.bytes == kZipElsewhere32 || place.count == kZipElsewhere16;
  }
  bool locator_points_here() const {
    return locator() >= kZip64EndBytes && number(zip64_end(), 4) == kZip64EndSignature;
  }

  DirectoryPlace read_zip64(const DirectoryPlace& small) const {
    if (!locator_points_here() || number(locator() + 8, 8) != zip64_end() || number(zip64_end() + 4, 8) != 44) {
      fail("zip64 record is not where it should be", locator());
    }
    if (number(locator() + 4, 4) != 0 || number(locator() + 16, 4) > 1 || number(zip64_end() + 16, 8) != 0 ||
        number(zip64_end() + 24, 8) != number(zip64_end() + 32, 8)) {
      fail("archive is one part of several", zip64_end() + 16);
    }
    const DirectoryPlace large{number(zip64_end() + 48, 8), number(zip64_end() + 40, 8), number(zip64_end() + 32, 8)};
    const auto agrees = [](std::uint64_t field, std::uint64_t elsewhere, std::uint64_t value) {
      return field == elsewhere || field == value;
    };
    if (!agrees(small.begin, kZipElsewhere32, large.begin) || !agrees(small.bytes, kZipElsewhere32, large.bytes) ||
        !agrees(small.count, kZipElsewhere16, large.count)) {
      fail("the archive's two last records disagree", zip64_end());
    }
    return large;
  }

  void check(const DirectoryPlace& place, std::uint64_t behind) const {
    if (place.begin > behind || place.bytes != behind - place.begin) {
      fail("directory of " + std::to_string(place.bytes) + " bytes at byte " + std::to_string(place.begin) +
               " does not end where the last record begins",
           behind);
    }
    if (place.bytes > kMaxZipDirectoryBytes) {
      fail("directory has " + std::to_string(place.bytes) + " bytes, more than the " +
               std::to_string(kMaxZipDirectoryBytes) + " that are read",
           place.begin);
    }
    // Every entry has its fixed part: the count needs no more memory than the directory.
    if (place.count > place.bytes / kZipEntryBytes) {
      fail("directory of " + std::to_string(place.bytes) + " bytes cannot hold " + std::to_string(place.count) +
               " entries",
           place.begin);
    }
  }

  std::string_view path_;
  std::span<const std::byte> file_;
};

class EntryReader {
 public:
  EntryReader(std::string_view path, std::span<const std::byte> file, const DirectoryPlace& place)
      : path_(path), file_(file), at_(place.begin), end_(place.begin + place.bytes) {}

  bool done() const { return at_ == end_; }

  ZipMember read() {
    if (end_ - at_ < kZipEntryBytes) fail("directory ends inside an entry");
    if (number(0, 4) != kZipEntrySignature) fail("directory has no entry here");
    const std::uint64_t name_bytes = number(28, 2), extra_bytes = number(30, 2), comment_bytes = number(32, 2);
    const std::uint64_t bytes = kZipEntryBytes + name_bytes + extra_bytes + comment_bytes;
    if (end_ - at_ < bytes) fail("directory ends inside an entry");
    ZipMember member;
    member.declared_at = at_;
    member.name.assign(reinterpret_cast<const char*>(file_.data()) + at_ + kZipEntryBytes, name_bytes);
    member.flags = static_cast<unsigned>(number(8, 2));
    member.method = static_cast<unsigned>(number(10, 2));
    member.checksum = static_cast<std::uint32_t>(number(16, 4));
    member.packed_bytes = number(20, 4);
    member.bytes = number(24, 4);
    member.local_at = number(42, 4);
    const std::string who = "member " + quote_name(member.name);
    if (const auto fault = zip_name_fault(member.name)) fail(who + " " + std::string(*fault));
    if (number(34, 2) != 0) fail("archive is one part of several");
    check_kind(member, who);
    std::uint64_t* const values[] = {&member.bytes, &member.packed_bytes, &member.local_at};
    read_zip64_extra(path_, file_, at_ + kZipEntryBytes + name_bytes, extra_bytes, who, values);
    check_sizes(member, who);
    at_ += bytes;
    return member;
  }

 private:
  [[noreturn]] void fail(std::string_view reason) const { throw FileError(path_, reason, at_); }
  // At an offset from the entry's start.
  std::uint64_t number(std::uint64_t offset, unsigned count) const { return zip_number(file_, at_ + offset, count); }

  void check_kind(const ZipMember& member, const std::string& who) const {
    if ((member.flags & kZipEncrypted) != 0) fail(who + " is encrypted");
    if ((member.flags & ~(kZipDeflateHints | kZipSizesBehind | kZipUtf8Name)) != 0) {
      fail(who + " has flags that headwise does not know");
    }
    if (member.method == kZipStored || member.method == kZipDeflated) return;
    constexpr std::pair<unsigned, std::string_view> kNames[] = {{1, " (shrink)"}, {9, " (deflate64)"}, {12, " (bzip2)"},
                                                                {14, " (lzma)"},  {93, " (zstd)"},     {95, " (xz)"},
                                                                {99, " (AES)"}};
    std::string method = std::to_string(member.method);
    for (const auto& [number, name] : kNames) {
      if (number == member.method) method += name;
    }
    fail(who + " is packed by method " + method + "; headwise reads stored (0) and deflated (8) ones");
  }

  void check_sizes(const ZipMember& member, const std::string& who) const {
    if (member.method == kZipStored && member.bytes != member.packed_bytes) {
      fail(who + " is stored, but claims " + std::to_string(member.packed_bytes) + " bytes in the archive and " +
           std::to_string(member.bytes) + " outside");
    }
    if (member.method == kZipDeflated && member.bytes / kMostInflation > member.packed_bytes) {
      fail(who + " claims " + std::to_string(member.bytes) + " bytes, more than its " +
           std::to_string(member.packed_bytes) + " deflated ones can give");
    }
  }

  std::string_view path_;
  std::span<const std::byte> file_;
  std::uint64_t at_, end_;
};

void check_names(std::string_view path, const std::vector<ZipMember>& members) {
  std::vector<const ZipMember*> order;
  order.reserve(members.size());
  for (const ZipMember& member : members) order.push_back(&member);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->name != order[i - 1]->name) continue;
    throw FileError(path, "member " + quote_name(order[i]->name) + " is listed twice", order[i]->declared_at);
  }
}

}  // namespace

std::optional<std::string_view> zip_name_fault(std::string_view name) {
  if (name.empty()) return "has no name";
  if (name.find('\0') != std::string_view::npos) return "has a NUL character in its name";
  if (!is_utf8(name)) return "has a name that is not UTF-8";
  if (name.find('\\') != std::string_view::npos) return "has a backslash in its name";
  if (name.front() == '/') return "is an absolute path";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return "leads out of its folder";
    begin = end + 1;
  }
  return std::nullopt;
}

void read_zip64_extra(std::string_view path, std::span<const std::byte> file, std::uint64_t at, std::uint64_t count,
                      const std::string& who, std::span<std::uint64_t* const> values) {
  std::uint64_t wanted = 0;
  for (const std::uint64_t* value : values) wanted += *value == kZipElsewhere32 ? 8 : 0;
  bool seen = false;
  while (count > 0) {
    const std::uint64_t bytes = count < 4 ? 0 : zip_number(file, at + 2, 2);
    if (count < 4 || bytes > count - 4) throw FileError(path, who + " has extra fields that end too early", at);
    if (zip_number(file, at, 2) == kZip64ExtraId) {
      if (std::exchange(seen, true)) throw FileError(path, who + " has two zip64 fields", at);
      if (bytes < wanted) throw FileError(path, who + " has a zip64 field that is too short", at);
      std::uint64_t from = at + 4;
      for (std::uint64_t* value : values) {
        if (*value == kZipElsewhere32) *value = zip_number(file, std::exchange(from, from + 8), 8);
      }
    }
    at += 4 + bytes;
    count -= 4 + bytes;
  }
  if (wanted > 0 && !seen) throw FileError(path, who + " has no zip64 field for its sizes", at);
}

std::vector<ZipMember> read_zip_directory(std::string_view path, std::span<const std::byte> file) {
  const DirectoryPlace place = EndReader(path, file).read();
  std::vector<ZipMember> members;
  members.reserve(place.count);
  for (EntryReader entries(path, file, place); !entries.done();) members.push_back(entries.read());
  if (members.size() != place.count) {
    throw FileError(path,
                    "directory has " + std::to_string(members.size()) + " entries, the archive's last record says " +
                        std::to_string(place.count),
                    place.begin);
  }
  check_names(path, members);
  check_zip_members(path, file, place.begin, members);
  return members;
}

}  // namespace headwise
