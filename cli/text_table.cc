// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "headwise/io/utf8.h"

namespace headwise::cli {
namespace {

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
    const Utf8Character character = first_utf8_character(text);
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
    const Utf8Character character = first_utf8_character(text);
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

std::string counted(Index count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string number_text(double value, int decimals) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, decimals);
}

}  // namespace headwise::cli
