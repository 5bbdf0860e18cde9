// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/npy_format.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

constexpr std::array<std::pair<std::string_view, DType>, 12> kTypes{{{"b1", DType::kBool},
                                                                     {"i1", DType::kInt8},
                                                                     {"u1", DType::kUint8},
                                                                     {"i2", DType::kInt16},
                                                                     {"u2", DType::kUint16},
                                                                     {"i4", DType::kInt32},
                                                                     {"u4", DType::kUint32},
                                                                     {"i8", DType::kInt64},
                                                                     {"u8", DType::kUint64},
                                                                     {"f2", DType::kFloat16},
                                                                     {"f4", DType::kFloat32},
                                                                     {"f8", DType::kFloat64}}};

// The header is a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class DictReader {
 public:
  DictReader(std::string_view path, std::string_view text, std::size_t offset)
      : path_(path), text_(text), offset_(offset) {}

  NpyHeader read() {
    expect('{');
    while (!take('}')) {
      read_item();
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_blanks();
    if (at_ != text_.size()) fail("header goes on behind its dict");
    for (const auto& [seen, name] :
         {std::pair(seen_descr_, "descr"), {seen_order_, "fortran_order"}, {seen_shape_, "shape"}}) {
      if (!seen) fail("header has no '" + std::string(name) + "'");
    }
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(std::string_view reason) const { throw FileError(path_, reason, offset_ + at_); }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(char wanted) {
    if (take(wanted)) return;
    if (at_ == text_.size()) fail("header ends where '" + std::string(1, wanted) + "' should stand");
    fail("header must have '" + std::string(1, wanted) + "' here, got " + quote_name(text_.substr(at_, 1)));
  }

  std::string_view read_string(std::string_view what) {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') fail(std::string(what) + " must be a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail(std::string(what) + " is a string without an end");
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }

  void read_item() {
    const std::string_view key = read_string("a key of the header");
    bool* seen = key == "descr" ? &seen_descr_ : key == "fortran_order" ? &seen_order_ : &seen_shape_;
    if (seen == &seen_shape_ && key != "shape") fail("header has an unknown key " + quote_name(key));
    if (std::exchange(*seen, true)) fail("header has " + quote_name(key) + " twice");
    expect(':');
    if (seen == &seen_descr_) read_descr();
    if (seen == &seen_order_) read_order();
    if (seen == &seen_shape_) read_shape();
  }

  void read_descr() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') fail("the array has a structured dtype; headwise reads plain numbers");
    const std::string_view descr = read_string("'descr'");
    const std::string quoted = quote_name(descr);
    const char order = descr.empty() ? ' ' : descr.front();
    for (const auto& [name, dtype] : kTypes) {
      if (descr.empty() || descr.substr(1) != name) continue;
      if (order == '>' && dtype_bytes(dtype) > 1) {
        fail("dtype " + quoted + " is big-endian; save the array as '<" + std::string(name) + "'");
      }
      if (order != '<' && order != '|' && order != '=' && order != '>') break;
      header_.dtype = dtype;
      return;
    }
    fail("dtype " + quoted + " is not one that headwise reads: b1, i1 to i8, u1 to u8, f2, f4, f8, little-endian");
  }

  void read_order() {
    if (take("True")) {
      header_.fortran_order = true;
    } else if (!take("False")) {
      fail("'fortran_order' must be True or False");
    }
  }

  void read_shape() {
    skip_blanks();
    if (!take('(')) fail("'shape' must be a tuple");
    bool comma = true;
    while (!take(')')) {
      if (!comma) expect(')');
      if (header_.shape.size() == NpyHeader::kMaxRank) {
        fail("'shape' has more than " + std::to_string(NpyHeader::kMaxRank) + " axes");
      }
      header_.shape.push_back(read_extent());
      comma = take(',');
    }
    // (3) is a number in Python, not a tuple.
    if (header_.shape.size() == 1 && !comma) fail("'shape' must be a tuple, got a number in brackets");
  }

  Index read_extent() {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] < '0' || text_[at_] > '9') fail("'shape' must hold whole numbers");
    Index value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, Index{10}, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        fail("'shape' holds a number that does not fit into 63 bits");
      }
    }
    return value;
  }

  std::string_view path_, text_;
  std::size_t offset_;
  std::size_t at_ = 0;
  NpyHeader header_;
  bool seen_descr_ = false, seen_order_ = false, seen_shape_ = false;
};

std::optional<std::uint64_t> bytes_of(const NpyHeader& header) {
  std::uint64_t bytes = dtype_bytes(header.dtype);
  bool wraps = false;
  for (const Index extent : header.shape) {
    if (extent == 0) return 0;
    wraps |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes);
  }
  return wraps ? std::nullopt : std::optional(bytes);
}

}  // namespace

NpyHeader parse_npy_start(std::string_view path, std::span<const std::byte> start, std::uint64_t total_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (!text.starts_with(kMagic)) throw FileError(path, "does not start with \\x93NUMPY: not an npy file", 0);
  const auto byte = [&](std::size_t at) { return std::to_integer<std::size_t>(start[at]); };
  if (total_bytes < 10) throw FileError(path, "file ends inside its npy header", total_bytes);
  const std::size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) {
    throw FileError(path,
                    "npy version " + std::to_string(version) + "." + std::to_string(byte(7)) +
                        " is unknown; headwise reads 1.0, 2.0 and 3.0",
                    6);
  }
  const std::size_t begin = version == 1 ? 10 : 12;
  if (total_bytes < begin) throw FileError(path, "file ends inside its npy header", total_bytes);
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > NpyHeader::kMaxBytes) {
    throw FileError(path,
                    "header length " + std::to_string(length) + " is more than the " +
                        std::to_string(NpyHeader::kMaxBytes) + " bytes that are read",
                    8);
  }
  if (length > total_bytes - begin) {
    throw FileError(path,
                    "header length " + std::to_string(length) + " is more than the " +
                        std::to_string(total_bytes - begin) + " bytes that follow it",
                    8);
  }
  NpyHeader header = DictReader(path, text.substr(begin, length), begin).read();
  header.data_begin = begin + length;
  const std::string size = std::string(dtype_name(header.dtype)) + " of shape " + format_shape(header.shape);
  const auto wanted = bytes_of(header);
  if (!wanted) throw FileError(path, size + " is larger than any file", begin);
  if (*wanted != total_bytes - header.data_begin) {
    throw FileError(path,
                    size + " needs " + std::to_string(*wanted) + " bytes, the file has " +
                        std::to_string(total_bytes - header.data_begin),
                    header.data_begin);
  }
  return header;
}

NpyHeader parse_npy_header(std::string_view path, std::span<const std::byte> file) {
  return parse_npy_start(path, file, file.size());
}

}  // namespace headwise
