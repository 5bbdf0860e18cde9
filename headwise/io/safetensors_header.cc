// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "headwise/io/file_error.h"
#include "headwise/io/safetensors_json.h"

namespace headwise {
namespace {

constexpr std::array<SafetensorsType, 22> kTypes{{
    {"BOOL", 8, DType::kBool},        {"U8", 8, DType::kUint8},         {"I8", 8, DType::kInt8},
    {"U16", 16, DType::kUint16},      {"I16", 16, DType::kInt16},       {"F16", 16, DType::kFloat16},
    {"BF16", 16, DType::kBFloat16},   {"U32", 32, DType::kUint32},      {"I32", 32, DType::kInt32},
    {"F32", 32, DType::kFloat32},     {"U64", 64, DType::kUint64},      {"I64", 64, DType::kInt64},
    {"F64", 64, DType::kFloat64},     {"F4", 4, std::nullopt},          {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},     {"F8_E5M2", 8, std::nullopt},     {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F8_E4M3FNUZ", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt},
    {"C64", 64, std::nullopt},
}};

std::uint64_t little_endian(std::span<const std::byte, kSafetensorsLengthBytes> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = (value << 8) | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

// The header's text: behind the length, without the blanks that pad it.
std::string_view header_text(std::string_view path, std::span<const std::byte> file) {
  if (file.size() < kSafetensorsLengthBytes) {
    throw FileError(path, "file has " + std::to_string(file.size()) + " bytes, too few for the 8 of the header length",
                    file.size());
  }
  const std::uint64_t length = little_endian(file.first<kSafetensorsLengthBytes>());
  const std::uint64_t rest = file.size() - kSafetensorsLengthBytes;
  if (length > SafetensorsHeader::kMaxBytes) {
    throw FileError(path,
                    "header length " + std::to_string(length) + " is more than the format's limit of " +
                        std::to_string(SafetensorsHeader::kMaxBytes) + "; is this a safetensors file?",
                    0);
  }
  if (length > rest) {
    throw FileError(path,
                    "header length " + std::to_string(length) + " is more than the " + std::to_string(rest) +
                        " bytes that follow it",
                    0);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kSafetensorsLengthBytes, length);
  if (text.empty() || text.front() != '{') {
    throw FileError(path, "header does not start with '{'", kSafetensorsLengthBytes);
  }
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

void check_names(std::string_view path, SafetensorsHeader& header) {
  const auto& entries = header.entries;
  header.by_name.resize(entries.size());
  std::iota(header.by_name.begin(), header.by_name.end(), 0U);
  std::sort(header.by_name.begin(), header.by_name.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int order = entries[a].name.compare(entries[b].name);
    return order < 0 || (order == 0 && a < b);
  });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const SafetensorsEntry& second = entries[header.by_name[i]];
    if (second.name != entries[header.by_name[i - 1]].name) continue;
    throw FileError(path, "tensor " + quote_name(second.name) + " is listed twice", second.declared_at);
  }
}

// "1 byte at the end of the file belongs to no tensor".
std::string stray(std::uint64_t bytes, const std::string& where) {
  return std::to_string(bytes) + (bytes == 1 ? " byte " : " bytes ") + where +
         (bytes == 1 ? " belongs to no tensor" : " belong to no tensor");
}

// The tensors must fill the data from its first byte to its last: no byte shared, none left over.
void check_layout(std::string_view path, const SafetensorsHeader& header, std::uint64_t data_bytes) {
  const auto& entries = header.entries;
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(entries[a].begin, entries[a].end, a) < std::tie(entries[b].begin, entries[b].end, b);
  });
  std::uint64_t filled = 0;
  std::string before = "the start of the data";
  for (const std::uint32_t number : order) {
    const SafetensorsEntry& entry = entries[number];
    if (entry.begin < filled) {
      throw FileError(path, "tensor " + quote_name(entry.name) + " begins inside " + before,
                      header.data_begin + entry.begin);
    }
    if (entry.begin > filled) {
      throw FileError(path, stray(entry.begin - filled, "between " + before + " and tensor " + quote_name(entry.name)),
                      header.data_begin + filled);
    }
    filled = entry.end;
    before = "tensor " + quote_name(entry.name);
  }
  if (filled < data_bytes) {
    throw FileError(path, stray(data_bytes - filled, "at the end of the file"), header.data_begin + filled);
  }
}

}  // namespace

std::span<const SafetensorsType> safetensors_types() { return kTypes; }

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [&](std::uint32_t entry, std::string_view wanted) { return entries[entry].name < wanted; });
  return found != by_name.end() && entries[*found].name == name ? &entries[*found] : nullptr;
}

SafetensorsHeader parse_safetensors_header(std::string_view path, std::span<const std::byte> file) {
  const std::string_view text = header_text(path, file);
  SafetensorsHeader header;
  header.data_begin = kSafetensorsLengthBytes + little_endian(file.first<kSafetensorsLengthBytes>());
  const std::uint64_t data_bytes = file.size() - header.data_begin;
  read_safetensors_json(path, text, data_bytes, header);
  check_names(path, header);
  check_layout(path, header, data_bytes);
  return header;
}

}  // namespace headwise
