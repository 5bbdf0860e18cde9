// SPDX-License-Identifier: Apache-2.0
// Where the members of a zip archive lie, and whether each says of itself what the directory says of it.
#include <algorithm>
#include <cstring>

#include "headwise/io/file_error.h"
#include "headwise/io/zip_directory.h"
#include "headwise/io/zip_fields.h"

namespace headwise {
namespace {

class MemberReader {
 public:
  MemberReader(std::string_view path, std::span<const std::byte> file, std::uint64_t directory_at)
      : path_(path), file_(file), directory_at_(directory_at) {}

  // Sets `begin`; the header and the data must end before the directory.
  void read_header(ZipMember& member) const {
    const std::string who = "member " + quote_name(member.name);
    const std::uint64_t at = member.local_at;
    if (at > directory_at_ || directory_at_ - at < kZipLocalBytes) {
      throw FileError(path_, who + " has its header at byte " + std::to_string(at) + ", behind the last one possible",
                      member.declared_at);
    }
    if (number(at, 4) != kZipLocalSignature) throw FileError(path_, who + " has no header here", at);
    const std::uint64_t name_bytes = number(at + 26, 2), extra_bytes = number(at + 28, 2);
    if (directory_at_ - at - kZipLocalBytes < name_bytes + extra_bytes) {
      throw FileError(path_, who + " has a header that reaches into the directory", at);
    }
    member.begin = at + kZipLocalBytes + name_bytes + extra_bytes;
    if (directory_at_ - member.begin < member.packed_bytes) {
      throw FileError(path_,
                      who + " claims " + std::to_string(member.packed_bytes) + " bytes, " +
                          std::to_string(directory_at_ - member.begin) + " lie before the directory",
                      member.declared_at);
    }
    check_agreement(member, who, name_bytes, extra_bytes);
  }

  // Where the next member must begin. Behind the data there may be a descriptor, told by the room it has.
  std::uint64_t end_of(const ZipMember& member, std::uint64_t next) const {
    const std::uint64_t end = member.begin + member.packed_bytes;
    if ((member.flags & kZipSizesBehind) == 0 || next <= end) return end;
    const std::uint64_t room = next - end;
    const bool has_signature = room == 16 || room == 24;
    const unsigned width = room == 12 || room == 16 ? 4 : 8;
    if (room != 12 && room != 20 && !has_signature) return end;
    const std::uint64_t from = end + (has_signature ? 4 : 0);
    if ((has_signature && number(end, 4) != kZipDescriptorSignature) || number(from, 4) != member.checksum ||
        number(from + 4, width) != member.packed_bytes || number(from + 4 + width, width) != member.bytes) {
      throw FileError(path_, "member " + quote_name(member.name) + " has other sizes or another checksum behind it",
                      end);
    }
    return next;
  }

 private:
  std::uint64_t number(std::uint64_t at, unsigned count) const { return zip_number(file_, at, count); }

  void check_agreement(const ZipMember& member, const std::string& who, std::uint64_t name_bytes,
                       std::uint64_t extra_bytes) const {
    const std::uint64_t at = member.local_at;
    const auto disagree = [&](const char* what) {
      throw FileError(path_, who + " has another " + what + " in its header than in the directory", at);
    };
    if (name_bytes != member.name.size() ||
        std::memcmp(file_.data() + at + kZipLocalBytes, member.name.data(), name_bytes) != 0) {
      disagree("name");
    }
    if (number(at + 6, 2) != member.flags) disagree("set of flags");
    if (number(at + 8, 2) != member.method) disagree("method");
    std::uint64_t packed_bytes = number(at + 18, 4), bytes = number(at + 22, 4);
    const std::uint64_t checksum = number(at + 14, 4);
    std::uint64_t* const values[] = {&bytes, &packed_bytes};
    read_zip64_extra(path_, file_, at + kZipLocalBytes + name_bytes, extra_bytes, who, values);
    // What stands behind the data may be zero here.
    const bool is_behind = (member.flags & kZipSizesBehind) != 0;
    const auto agrees = [&](std::uint64_t here, std::uint64_t there) {
      return here == there || (is_behind && here == 0);
    };
    if (!agrees(checksum, member.checksum)) disagree("checksum");
    if (!agrees(packed_bytes, member.packed_bytes) || !agrees(bytes, member.bytes)) disagree("size");
  }

  std::string_view path_;
  std::span<const std::byte> file_;
  std::uint64_t directory_at_;
};

}  // namespace

void check_zip_members(std::string_view path, std::span<const std::byte> file, std::uint64_t directory_at,
                       std::vector<ZipMember>& members) {
  const MemberReader reader(path, file, directory_at);
  std::vector<const ZipMember*> order;
  order.reserve(members.size());
  for (ZipMember& member : members) {
    reader.read_header(member);
    order.push_back(&member);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->local_at < b->local_at; });
  std::uint64_t end = 0;
  std::string before = "the start of the file";
  const auto check_gap = [&](std::uint64_t begin, const std::string& what, std::uint64_t declared_at) {
    if (begin < end) throw FileError(path, what + " begins inside " + before, declared_at);
    if (begin == end) return;
    const std::string bytes = begin - end == 1 ? " byte between " : " bytes between ";
    throw FileError(path,
                    std::to_string(begin - end) + bytes + before + " and " + what +
                        (begin - end == 1 ? " belongs to no member" : " belong to no member"),
                    end);
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string who = "member " + quote_name(order[i]->name);
    check_gap(order[i]->local_at, who, order[i]->declared_at);
    end = reader.end_of(*order[i], i + 1 < order.size() ? order[i + 1]->local_at : directory_at);
    before = who;
  }
  check_gap(directory_at, "the directory", directory_at);
}

}  // namespace headwise
