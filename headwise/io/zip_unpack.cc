// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/zip_unpack.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "headwise/io/file_error.h"
#include "headwise/io/zip_fields.h"

namespace headwise {
namespace {

// One deflated stream without zlib's or gzip's own header.
class Inflater {
 public:
  Inflater(std::string_view path, const ZipMember& member, std::span<const std::byte> packed)
      : path_(path), member_(member), packed_(packed) {
    if (::inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { ::inflateEnd(&stream_); }

  void read(std::span<std::byte> target) {
    const std::size_t got = produce(target);
    if (got < target.size()) {
      fail("unpacks to " + std::to_string(got) + " bytes, it claims " + std::to_string(member_.bytes));
    }
  }

  // Behind the last byte: the stream must say that it is over, and nothing may be left of it.
  void finish() {
    std::byte more{};
    if (produce({&more, 1}) != 0)
      fail("unpacks to more than the " + std::to_string(member_.bytes) + " bytes it claims");
    const std::size_t left = packed_.size() + stream_.avail_in;
    if (left != 0) {
      fail("has " + std::to_string(left) + (left == 1 ? " byte" : " bytes") + " behind its deflated data");
    }
  }

 private:
  // zlib counts in 32 bits.
  static constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

  [[noreturn]] void fail(const std::string& reason) const { throw FileError(path_, reason, member_.begin); }

  // Fills the target, less only where the stream is over.
  std::size_t produce(std::span<std::byte> target) {
    std::size_t done = 0;
    while (done < target.size() && !over_) {
      if (stream_.avail_in == 0) feed();
      const std::size_t room = std::min(target.size() - done, kMostAtOnce);
      stream_.next_out = reinterpret_cast<Bytef*>(target.data() + done);
      stream_.avail_out = static_cast<uInt>(room);
      const int answer = ::inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (answer == Z_MEM_ERROR) throw std::bad_alloc();
      if (answer == Z_STREAM_END) over_ = true;
      if (answer == Z_BUF_ERROR && packed_.empty()) fail("has deflated data that end too early");
      if (answer != Z_OK && answer != Z_STREAM_END && answer != Z_BUF_ERROR) fail("has damaged deflated data");
    }
    return done;
  }

  void feed() {
    const std::size_t bytes = std::min(packed_.size(), kMostAtOnce);
    // The input is only read; zlib's type does not say so.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed_.data()));
    stream_.avail_in = static_cast<uInt>(bytes);
    packed_ = packed_.subspan(bytes);
  }

  std::string_view path_;
  const ZipMember& member_;
  std::span<const std::byte> packed_;
  z_stream stream_{};
  bool over_ = false;
};

}  // namespace

std::uint32_t zip_checksum(std::span<const std::byte> bytes, std::uint32_t before) {
  if (bytes.empty()) return before;
  return static_cast<std::uint32_t>(::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

void check_zip_checksum(std::string_view path, const ZipMember& member, std::span<const std::byte> unpacked) {
  if (zip_checksum(unpacked) != member.checksum) throw FileError(path, "has a wrong checksum", member.begin);
}

void unpack_zip_member(std::string_view path, std::span<const std::byte> file, const ZipMember& member,
                       std::span<std::byte> target) {
  const std::span<const std::byte> packed = file.subspan(member.begin, member.packed_bytes);
  if (member.method == kZipStored) {
    std::copy_n(packed.begin(), target.size(), target.begin());
  } else {
    Inflater inflater(path, member, packed);
    inflater.read(target);
    if (target.size() == member.bytes) inflater.finish();
  }
  if (target.size() == member.bytes) check_zip_checksum(path, member, target);
}

}  // namespace headwise
