// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/npz_archive.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/npy_format.h"
#include "headwise/io/zip_fields.h"
#include "headwise/io/zip_unpack.h"

namespace headwise {
namespace {

constexpr std::string_view kEnding = ".npy";

std::string_view array_name(const ZipMember& member) {
  return std::string_view(member.name).substr(0, member.name.size() - kEnding.size());
}

std::span<const std::byte> stored_bytes(std::span<const std::byte> file, const ZipMember& member) {
  return file.subspan(member.begin, member.bytes);
}

}  // namespace

NpzArchive::NpzArchive(std::string path, std::span<const std::byte> file)
    : path_(std::move(path)), file_(file), members_(read_zip_directory(path_, file_)) {
  for (const ZipMember& member : members_) {
    if (member.name.size() > kEnding.size() && member.name.ends_with(kEnding)) continue;
    throw FileError(path_, "member " + quote_name(member.name) + " is not an npy file: its name does not end in .npy",
                    member.declared_at);
  }
}

std::vector<std::string> NpzArchive::names() const {
  std::vector<std::string> names;
  for (const ZipMember& member : members_) names.emplace_back(array_name(member));
  return names;
}

bool NpzArchive::contains(std::string_view name) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const ZipMember& member) { return array_name(member) == name; });
}

NpyHeader NpzArchive::header(std::string_view name) const { return header_of(member(name)); }

NpzArray NpzArchive::array(std::string_view name) const {
  const ZipMember& packed = member(name);
  const NpyHeader header = header_of(packed);
  const std::string place = place_of(packed);
  NpyBlock owned;
  std::span<const std::byte> whole;
  if (packed.method == kZipStored) {
    whole = stored_bytes(file_, packed);
    check_zip_checksum(place, packed, whole);
  } else {
    owned = std::make_unique_for_overwrite<std::byte[]>(packed.bytes);
    unpack_zip_member(place, file_, packed, {owned.get(), packed.bytes});
    whole = {owned.get(), packed.bytes};
  }
  NamedTensor tensor{std::string(name), header.dtype, header.shape, whole.data() + header.data_begin};
  if (NpyBlock turned = npy_in_c_order(header, whole.subspan(header.data_begin))) {
    tensor.data = turned.get();
    owned = std::move(turned);
  }
  return {std::move(tensor), std::move(owned)};
}

const ZipMember& NpzArchive::member(std::string_view name) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const ZipMember& member) { return array_name(member) == name; });
  if (found == members_.end()) throw FileError(path_, "there is no array " + quote_name(name));
  return *found;
}

NpyHeader NpzArchive::header_of(const ZipMember& member) const {
  const std::string place = place_of(member);
  if (member.method == kZipStored) return parse_npy_start(place, stored_bytes(file_, member), member.bytes);
  std::vector<std::byte> start(std::min<std::uint64_t>(member.bytes, kMaxNpyStart));
  unpack_zip_member(place, file_, member, start);
  return parse_npy_start(place, start, member.bytes);
}

std::string NpzArchive::place_of(const ZipMember& member) const {
  return path_ + ": member " + quote_name(member.name);
}

}  // namespace headwise
