// SPDX-License-Identifier: Apache-2.0
#include "cli/shaded_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/text_table.h"
#include "headwise/io/utf8.h"

namespace headwise::cli {
namespace {

constexpr int kCellWidth = 6;    // " ▓ 42 "
constexpr int kLabelWidth = 14;  // of a query token
constexpr Index kMostRows = 40;

struct Place {
  Index row = 0, column = 0;
};

Place largest_weight(TensorView<const float, 2> weights) {
  Place best;
  float largest = -1;
  for (Index i = 0; i < weights.size(0); ++i) {
    for (Index j = 0; j < weights.size(1); ++j) {
      if (!(weights(i, j) > largest)) continue;
      largest = weights(i, j);
      best = {i, j};
    }
  }
  return best;
}

std::string percent(float weight) { return std::isnan(weight) ? "nan" : fmt::format("{:.0f}", 100 * weight); }

std::string plain_cell(float weight) {
  constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  const float bounded = std::isnan(weight) ? 0 : std::clamp(weight, 0.0F, 1.0F);
  return fmt::format(" {}{:>3} ", kShades[static_cast<int>(bounded * 4.999F)], percent(weight));
}

// A background from the 24 greys of the 256-colour palette, with a foreground that stands out from it.
std::string coloured_cell(float weight) {
  const float bounded = std::isnan(weight) ? 0 : std::clamp(weight, 0.0F, 1.0F);
  const int grey = 232 + static_cast<int>(std::lround(23 * bounded));
  return fmt::format("\x1b[48;5;{};38;5;{}m {:>4} \x1b[0m", grey, grey < 246 ? 255 : 232, percent(weight));
}

std::string left_out(const char* what, const TokenWindow& shown, Index count) {
  if (shown.end - shown.begin == count) return "";
  return fmt::format("{} {}..{} of {}", what, shown.begin, shown.end - 1, count);
}

}  // namespace

TokenWindow window_around(Index centre, Index length, Index count) {
  length = std::min(std::max<Index>(length, 1), count);
  const Index begin = std::clamp<Index>(centre - length / 2, 0, count - length);
  return {begin, begin + length};
}

std::string shaded_table(TensorView<const float, 2> weights, std::span<const std::string> tokens,
                         const Terminal& terminal) {
  const Index seq = weights.size(0);
  const Place best = largest_weight(weights);
  const TokenWindow rows = window_around(best.row, kMostRows, seq);
  const TokenWindow columns = window_around(best.column, (terminal.width - kLabelWidth - 2) / kCellWidth, seq);
  std::string text(static_cast<std::size_t>(kLabelWidth + 2), ' ');
  for (Index j = columns.begin; j < columns.end; ++j) {
    text += " " + pad(cut_to_width(printable(tokens[j]), kCellWidth - 1), kCellWidth - 1, Align::kRight);
  }
  text += "\n";
  for (Index i = rows.begin; i < rows.end; ++i) {
    text += "  " + pad(cut_to_width(printable(tokens[i]), kLabelWidth), kLabelWidth, Align::kLeft);
    for (Index j = columns.begin; j < columns.end; ++j) {
      text += terminal.colour ? coloured_cell(weights(i, j)) : plain_cell(weights(i, j));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  const std::string left_rows = left_out("queries", rows, seq), left_columns = left_out("keys", columns, seq);
  if (!left_rows.empty() || !left_columns.empty()) {
    text += fmt::format("  Shown around the largest weight: {}{}{}.\n  All of them: --json.\n", left_rows,
                        left_rows.empty() || left_columns.empty() ? "" : ", ", left_columns);
  }
  return text;
}

}  // namespace headwise::cli
