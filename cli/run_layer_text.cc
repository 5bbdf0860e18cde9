// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/run_layer_report.h"
#include "cli/text_table.h"
#include "headwise/io/utf8.h"
#include "headwise/tensor/shape_check.h"

namespace headwise::cli {
namespace {

std::string array_text(const ReportedArray& array) {
  return fmt::format("{} {} {}", printable(array.name), dtype_name(array.dtype), format_shape(array.shape));
}

std::string layer_line(const RunLayerReport& report) {
  const AttentionSizes& sizes = report.sizes;
  const std::string shared = sizes.kv_heads == sizes.heads ? "" : fmt::format(" on {} kv_heads", sizes.kv_heads);
  return fmt::format("{}: {}, {} {}{}, head_dim {}, d_in {}, d_out {}, {}\n", printable(report.layer_path),
                     report.config.who, sizes.heads, sizes.heads == 1 ? "head" : "heads", shared, sizes.head_dim,
                     report.config.d_in, report.config.d_out, report.config.causal ? "causal" : "not causal");
}

std::string heads_table(const RunLayerReport& report) {
  std::vector<Align> columns{Align::kRight};
  std::vector<std::vector<std::string>> rows{{"head"}};
  for (Index head = 0; head < report.sizes.heads; ++head) rows.push_back({std::to_string(head)});
  for (const auto& [name, means] : report.means) {
    columns.push_back(Align::kRight);
    rows[0].push_back(name);
    for (std::size_t head = 0; head < means.size(); ++head)
      rows[head + 1].push_back(report.seeing == 0 ? "-" : number_text(means[head], 3));
  }
  return text_table(columns, rows);
}

std::string values_text(const ValueRange& values) {
  if (values.finite == 0) {
    return values.not_finite == 0 ? "no values" : fmt::format("no finite value, {} not finite", values.not_finite);
  }
  std::string text = fmt::format("values {:.4g} to {:.4g}, mean {:.4g}", values.least, values.most, values.mean);
  if (values.not_finite > 0) text += fmt::format(", {} not finite", values.not_finite);
  return text;
}

// "10 queries"; "the 8 of 10 queries that see a key".
std::string queries_text(const RunLayerReport& report) {
  const std::string all = report.queries == 1 ? "1 query" : fmt::format("{} queries", report.queries);
  return report.seeing == report.queries ? all : fmt::format("the {} of {} that see a key", report.seeing, all);
}

}  // namespace

std::string run_layer_text(const RunLayerReport& report) {
  std::string text =
      layer_line(report) + fmt::format("{}: {}\n", printable(report.input_path), array_text(report.input));
  if (!report.keys_values_path.empty()) {
    text += fmt::format("{}: {}\n", printable(report.keys_values_path), array_text(report.keys_values));
  }
  text += fmt::format("{}: ", array_text(report.out));
  text += values_text(report.values) + "\n\nHeads, means over " + queries_text(report) +
          " (entropy in nats, distance in tokens, the rest are weights):\n" + heads_table(report);
  if (report.out_path.empty()) return text;
  text += fmt::format("\nWritten to {}:\n", printable(report.out_path));
  for (const ReportedArray& array : report.written) text += "  " + array_text(array) + "\n";
  return text;
}

}  // namespace headwise::cli
