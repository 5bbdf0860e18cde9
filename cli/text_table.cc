// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.h"

#include <algorithm>
#include <cstdint>

namespace headwise::cli {
namespace {

struct Character {
  std::size_t bytes = 1;
  std::uint32_t code = 0xFFFD;
};

// The character at the front of a text that is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::size_t bytes = byte(0) < 0x80       ? 1
                            : byte(0) >> 5 == 6  ? 2
                            : byte(0) >> 4 == 14 ? 3
                            : byte(0) >> 3 == 30 ? 4
                                                 : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  std::uint32_t code = bytes == 1 ? byte(0) : byte(0) & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  return {bytes, code};
}

struct Range {
  std::uint32_t first, last;
};

bool is_in(std::uint32_t code, std::span<const Range> ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return code >= range.first && code <= range.last; });
}

int width_of(std::uint32_t code) {
  constexpr Range kCombining[] = {{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};
  constexpr Range kWide[] = {{0x1100, 0x115F},   {0x2E80, 0xA4CF},  {0xAC00, 0xD7A3}, {0xF900, 0xFAFF},
                             {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F},
                             {0x1F680, 0x1FAFF}, {0x20000, 0x3FFFD}};
  if (is_in(code, kCombining)) return 0;
  return is_in(code, kWide) ? 2 : 1;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += width_of(character.code);
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string cut_to_width(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  std::string cut;
  int used = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (used + width_of(character.code) > width - 1) break;
    used += width_of(character.code);
    cut += text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  return cut + "…";
}

std::string pad(std::string_view text, int width, Align align) {
  const std::string blanks(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return align == Align::kRight ? blanks + std::string(text) : std::string(text) + blanks;
}

std::string printable(std::string_view token) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  while (!token.empty()) {
    const Character character = first_character(token);
    // C0, DEL and C1 controls.
    if (character.code < 0x20 || (character.code >= 0x7F && character.code < 0xA0)) {
      text.append("\\x").append({kHex[character.code / 16], kHex[character.code % 16]});
    } else {
      text += token.substr(0, character.bytes);
    }
    token.remove_prefix(character.bytes);
  }
  return text;
}

std::string text_table(std::span<const Align> columns, std::span<const std::vector<std::string>> rows) {
  std::vector<int> widths(columns.size(), 0);
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) line += "  " + pad(row[i], widths[i], columns[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace headwise::cli
