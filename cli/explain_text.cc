// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cli/explain_report.h"
#include "cli/text_table.h"
#include "headwise/tensor/shape_check.h"

namespace headwise::cli {
namespace {

// At blanks, `indent` before each line.
std::string wrapped(const std::string& text, int width, const std::string& indent) {
  std::string result, line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && display_width(indent + line) + 1 + display_width(word) > width) {
      result += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return result + indent + line + "\n";
}

std::string table_text(const ExplainTable& table) {
  std::vector<std::vector<std::string>> rows{table.columns};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  std::vector<Align> columns(table.columns.size(), Align::kRight);
  columns.front() = Align::kLeft;
  const bool words = std::any_of(table.rows.begin(), table.rows.end(), [](const auto& row) {
    return row.size() > 1 && row[1].find(' ') != std::string::npos;
  });
  if (words) std::fill(columns.begin(), columns.end(), Align::kLeft);
  return "  " + table.title + "\n" + text_table(columns, rows);
}

std::string section_text(const ExplainSection& section, const std::string& number, int width) {
  std::string text = "\n" + number + section.title + "\n";
  for (const std::string& paragraph : section.paragraphs) text += wrapped(paragraph, width, "  ");
  for (const ExplainTable& table : section.tables) text += "\n" + table_text(table);
  if (!section.tables.empty() && !section.conclusions.empty()) text += "\n";
  for (const std::string& conclusion : section.conclusions) text += wrapped(conclusion, width, "  ");
  return text;
}

std::string origin_of(const ShapeStep& step) {
  if (step.memory == StepMemory::kView) return step.how + ": same data, no copy";
  if (step.memory == StepMemory::kNeverStored) return step.how + ": worked on in pieces, never stored whole";
  return step.how.empty() ? "given" : step.how + ": new numbers";
}

}  // namespace

std::vector<std::string> explain_headline(const ExplainReport& report) {
  const AttentionConfig& config = report.found.config;
  const AttentionSizes& sizes = report.found.sizes;
  const Index seq = report.found.out.size(0);
  return {
      fmt::format("{}: d_in={}, d_out={}, num_heads={}, head_dim={}{}, {}, {} parameters",
                  report.layer == "default" ? "The default layer" : report.layer, config.d_in, config.d_out,
                  sizes.heads, sizes.head_dim,
                  sizes.kv_heads == sizes.heads ? "" : fmt::format(", num_kv_heads={}", sizes.kv_heads),
                  config.causal ? "causal" : "not causal", report.found.parameters),
      fmt::format("Input: {} of {} tokens, {}. Numbers are those of token {}. Heads and tokens count from 0, columns "
                  "(q1 ...) from 1.",
                  report.input.empty() ? "an example" : report.input, seq,
                  "recomputed in plain loops in float64, where the layer's own output differs by at most " +
                      fmt::format("{:.1g}", report.found.difference),
                  report.found.token)};
}

ExplainTable path_rows(const Explanation& found) {
  ExplainTable table{"Shapes, strides (in numbers) and whose memory it is", {"step", "shape", "strides", ""}, {}};
  for (const ShapeStep& step : found.path) {
    std::string shape;
    for (std::size_t i = 0; i < step.axes.size(); ++i) {
      shape += fmt::format("{}{}={}", i == 0 ? "" : ", ", step.axes[i], step.shape[i]);
    }
    table.rows.push_back({step.name, shape, step.strides.empty() ? "-" : format_shape(step.strides), origin_of(step)});
  }
  return table;
}

std::string explain_text(const ExplainReport& report, int width) {
  const int columns = std::clamp(width, 60, 110);
  std::string text;
  for (const std::string& line : explain_headline(report)) text += wrapped(line, columns, "");
  text += "\n" + table_text(path_rows(report.found));
  int number = 1;
  for (const ExplainSection& step : report.found.steps) {
    text += section_text(step, fmt::format("{}. ", number++), columns);
  }
  for (const ExplainSection& section : report.found.what_ifs) text += section_text(section, "", columns);
  return text + section_text(report.found.widths, "", columns);
}

}  // namespace headwise::cli
