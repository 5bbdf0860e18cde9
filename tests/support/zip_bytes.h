// SPDX-License-Identifier: Apache-2.0
// Zip archives by hand, field by field, so that each field can lie.
#ifndef HEADWISE_TESTS_SUPPORT_ZIP_BYTES_H_
#define HEADWISE_TESTS_SUPPORT_ZIP_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/file_bytes.h"

namespace headwise {

// CRC-32, one bit at a time.
inline std::uint32_t slow_checksum(std::string_view text) {
  std::uint32_t sum = ~0U;
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~sum;
}

// Deflate's plainest form: blocks that are stored as they are.
inline std::string deflated(std::string_view text) {
  std::string packed;
  do {
    const std::string_view part = text.substr(0, 65535);
    text.remove_prefix(part.size());
    packed += text.empty() ? '\1' : '\0';
    packed += little_endian_bytes(part.size(), 2) + little_endian_bytes(~part.size(), 2);
    packed += part;
  } while (!text.empty());
  return packed;
}

// The text, then 1 + 258 * repeats zeros, each 258 of which take 13 bits.
inline std::string deflated_bomb(std::string_view text, std::size_t repeats) {
  std::string packed = deflated(text);
  packed[0] = '\0';  // more blocks follow
  unsigned held = 0, bits = 0;
  // A Huffman code, first bit first; the block's header happens to read the same.
  const auto put = [&](const char* code) {
    for (; *code != 0; ++code) {
      held |= (*code == '1' ? 1U : 0U) << bits;
      if (++bits < 8) continue;
      packed += static_cast<char>(held);
      held = bits = 0;
    }
  };
  put("110");       // the last block, with the fixed codes
  put("00110000");  // the byte 0
  for (std::size_t i = 0; i < repeats; ++i)
    put("11000101"
        "00000");  // 258 times what stands 1 byte before
  put("0000000");  // the end
  put("0000000");  // fills the last byte
  return packed;
}

struct ZipPart {
  std::string name = "x.npy", content;
  unsigned method = 0, flags = 0;
  std::string packed = {};  // what stands in the archive; empty: the content, by the method
  std::string local_extra = {}, entry_extra = {}, behind = {};
};

// An archive whose numbers can be overwritten: at(record, field) counts from the record's start.
class Zip {
 public:
  explicit Zip(const std::vector<ZipPart>& parts) {
    std::string directory;
    for (const ZipPart& part : parts) {
      std::string packed = part.packed;
      if (packed.empty()) packed = part.method == 8 ? deflated(part.content) : part.content;
      const std::string sizes = little_endian_bytes(slow_checksum(part.content), 4) +
                                little_endian_bytes(packed.size(), 4) + little_endian_bytes(part.content.size(), 4) +
                                little_endian_bytes(part.name.size(), 2);
      const std::string kind =
          little_endian_bytes(part.flags, 2) + little_endian_bytes(part.method, 2) + little_endian_bytes(0, 4);
      locals_.push_back(bytes_.size());
      entries_.push_back(directory.size());
      directory += "PK\1\2" + little_endian_bytes(20, 2) + little_endian_bytes(20, 2) + kind + sizes +
                   little_endian_bytes(part.entry_extra.size(), 2) + std::string(10, '\0') +
                   little_endian_bytes(bytes_.size(), 4) + part.name + part.entry_extra;
      bytes_ += "PK\3\4" + little_endian_bytes(20, 2) + kind + sizes + little_endian_bytes(part.local_extra.size(), 2) +
                part.name + part.local_extra + packed + part.behind;
    }
    for (std::size_t& entry : entries_) entry += bytes_.size();
    const std::size_t begin = bytes_.size();
    bytes_ += directory;
    end_ = bytes_.size();
    bytes_ += "PK\5\6" + std::string(4, '\0') + little_endian_bytes(parts.size(), 2) +
              little_endian_bytes(parts.size(), 2) + little_endian_bytes(directory.size(), 4) +
              little_endian_bytes(begin, 4) + std::string(2, '\0');
  }

  // Overwrites a field of the local header, the directory entry or the last record.
  Zip& local(std::size_t field, std::uint64_t value, int width, std::size_t part = 0) {
    return set(locals_[part] + field, value, width);
  }
  Zip& entry(std::size_t field, std::uint64_t value, int width, std::size_t part = 0) {
    return set(entries_[part] + field, value, width);
  }
  Zip& end(std::size_t field, std::uint64_t value, int width) { return set(end_ + field, value, width); }
  // Puts bytes in front of the last record, behind the directory.
  Zip& before_end(std::string_view bytes) {
    bytes_.insert(end_, bytes);
    end_ += bytes.size();
    return *this;
  }

  std::size_t directory_at() const { return entries_.empty() ? end_ : entries_.front(); }
  std::size_t end_at() const { return end_; }
  const std::string& bytes() const { return bytes_; }
  operator std::string() const { return bytes_; }  // NOLINT: a Zip stands for its bytes in the tables of the tests

 private:
  Zip& set(std::size_t at, std::uint64_t value, int width) {
    bytes_.replace(at, static_cast<std::size_t>(width), little_endian_bytes(value, width));
    return *this;
  }

  std::string bytes_;
  std::vector<std::size_t> locals_, entries_;
  std::size_t end_ = 0;
};

// The zip64 record and its locator, for a directory at `begin` whose end is where this goes.
inline std::string zip64_end_bytes(std::uint64_t count, std::uint64_t begin, std::uint64_t end) {
  return "PK\6\6" + little_endian_bytes(44, 8) + std::string(12, '\0') + little_endian_bytes(count, 8) +
         little_endian_bytes(count, 8) + little_endian_bytes(end - begin, 8) + little_endian_bytes(begin, 8) +
         "PK\6\7" + little_endian_bytes(0, 4) + little_endian_bytes(end, 8) + little_endian_bytes(1, 4);
}

inline std::string zip64_extra_bytes(std::initializer_list<std::uint64_t> values) {
  std::string bytes = little_endian_bytes(1, 2) + little_endian_bytes(8 * values.size(), 2);
  for (const std::uint64_t value : values) bytes += little_endian_bytes(value, 8);
  return bytes;
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_ZIP_BYTES_H_
