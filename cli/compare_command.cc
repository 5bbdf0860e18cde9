// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/line_chart.h"
#include "cli/text_table.h"
#include "cli/usage.h"
#include "headwise/io/file_error.h"
#include "headwise/io/output_file.h"
#include "headwise/lens/compare_layers.h"

namespace headwise::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise compare\n"
    "  headwise compare --shape large --svg compare.svg\n"
    "  headwise compare --width-per-head 16 --heads-list 1,2,4,8\n"
    "  headwise compare --json | jq '.shapes[].rows[] | [.heads, .ways.wrapper_loop.microseconds]'\n"
    "\n"
    "Usage: headwise compare [OPTIONS]\n"
    "\n"
    "One causal attention layer on one input, built four ways with the same weights: num_heads objects called one "
    "after\n"
    "the other and joined (what the list comprehension in a wrapper does), a wrapper whose heads are stacked, the\n"
    "weight-split layer, and a single head of the whole width. Whether the outputs are equal bit for bit, parameters,\n"
    "memory, and the time of a forward as the median of interleaved rounds, over numbers of heads.\n"
    "\n"
    "Options:\n"
    "  --shape NAME        small (seq=16, d=64), large (seq=256, d=768) or both; both unless given\n"
    "  --heads-list N,N,.. numbers of heads; 1,2,4,8,16,32,64 unless given\n"
    "  --width-per-head N  d_out counts one head: the width, and the work, grows with the heads\n"
    "  --rounds N          rounds of each measurement; 9 unless given\n"
    "  --svg FILE          the times as a chart; with both shapes FILE gets -small and -large before its ending\n"
    "  --json              one JSON document\n"
    "  -h, --help          this text\n";

struct NamedShape {
  std::string name;
  CompareShape shape;
  std::vector<ComparedHeads> rows;
};

struct CompareArguments {
  std::vector<NamedShape> shapes;
  std::string svg;
  bool json = false, help = false;
};

std::vector<NamedShape> shapes_named(const std::string& name) {
  const NamedShape small{"small", {1, 16, 64, 64, false, {}, 9}, {}},
      large{"large", {1, 256, 768, 768, false, {}, 9}, {}};
  if (name == "small") return {small};
  if (name == "large") return {large};
  if (name == "both") return {small, large};
  throw UsageError("--shape must be small, large or both, got " + quote_name(name));
}

CompareArguments parse(std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag("");
  CompareArguments result;
  std::string shape = "both", heads = "1,2,4,8,16,32,64", width, rounds = "9";
  app.add_option("--shape", shape);
  app.add_option("--heads-list", heads);
  app.add_option("--width-per-head", width);
  app.add_option("--rounds", rounds);
  app.add_option("--svg", result.svg);
  app.add_flag("--json", result.json)->disable_flag_override();
  app.add_flag("-h,--help", result.help)->disable_flag_override();
  parse_arguments(app, arguments);
  if (result.help) return result;
  result.shapes = shapes_named(shape);
  if (app.count("--svg") > 0 && !result.svg.ends_with(".svg")) {
    throw UsageError("--svg must end in .svg, got " + quote_name(result.svg));
  }
  for (NamedShape& one : result.shapes) {
    one.shape.heads = parse_counts("--heads-list", heads);
    one.shape.rounds = parse_count("--rounds", rounds);
    if (one.shape.rounds < 1) throw UsageError(fmt::format("--rounds must be at least 1, got {}", one.shape.rounds));
    one.shape.width_per_head = app.count("--width-per-head") > 0;
    if (one.shape.width_per_head) one.shape.d_out = parse_count("--width-per-head", width);
  }
  return result;
}

std::string shape_text(const NamedShape& named) {
  const CompareShape& shape = named.shape;
  std::string text = fmt::format("{}: batch={}, seq={}, d_in={}, {}\n", named.name, shape.batch, shape.seq, shape.d_in,
                                 shape.width_per_head ? fmt::format("d_out={} for each head", shape.d_out)
                                                      : fmt::format("d_out={} for all heads", shape.d_out));
  std::vector<std::vector<std::string>> rows{{"heads", "head_dim", "output", "loop us", "stacked us", "split us",
                                              "single us", "loop/split", "parameters", "loop KiB", "split KiB",
                                              "equal bits", "single differs by"}};
  for (const ComparedHeads& row : named.rows) {
    std::vector<std::string> cells{std::to_string(row.heads), std::to_string(row.head_dim), std::to_string(row.width)};
    for (const ComparedWay& way : row.ways) cells.push_back(fmt::format("{:.1f}", way.microseconds));
    cells.push_back(fmt::format("{:.2f}", row.ways[0].microseconds / row.ways[2].microseconds));
    cells.push_back(std::to_string(row.ways[2].parameters));
    for (const std::size_t way : {0, 2}) {
      cells.push_back(fmt::format("{:.0f}", static_cast<double>(row.ways[way].working_numbers) * 4 / 1024));
    }
    cells.push_back(row.loop_differs + row.split_differs == 0
                        ? "all"
                        : fmt::format("{} of {} differ", row.loop_differs + row.split_differs, row.numbers));
    cells.push_back(row.heads == 1 && row.single_difference == 0 ? "-" : fmt::format("{:.2g}", row.single_difference));
    rows.push_back(std::move(cells));
  }
  const std::vector<Align> columns(rows.front().size(), Align::kRight);
  return text + text_table(columns, rows);
}

std::string conclusion(const NamedShape& named) {
  if (named.rows.size() < 2 || named.rows.front().heads == named.rows.back().heads) return "";
  const ComparedHeads &few = named.rows.front(), &many = named.rows.back();
  const double loop = many.ways[0].microseconds / few.ways[0].microseconds;
  const double split = many.ways[2].microseconds / few.ways[2].microseconds;
  const double each =
      (many.ways[0].microseconds - few.ways[0].microseconds) / static_cast<double>(many.heads - few.heads);
  return fmt::format(
      "  From {} to {} heads the loop takes {:.1f} times as long ({:.2g} us for each further head), the weight-split "
      "layer "
      "{:.1f} times{}.\n",
      few.heads, many.heads, loop, each, split,
      named.shape.width_per_head ? "; the work itself grows with the heads here" : "");
}

std::string report_text(const CompareArguments& given) {
  std::string text =
      "loop: num_heads objects called one after the other, outputs joined. stacked: the same weights as one block.\n"
      "split: the weight-split layer. single: one head of the whole width. Times are medians of one forward; KiB are "
      "the\n"
      "projections and outputs held at once. single differs: largest difference of its output from the others'.\n"
      "Joining runs nothing: the loop's heads have run one after the other when their outputs are joined. What that "
      "costs\n"
      "shows where heads are many and small; where the products are large they take nearly all of the time either "
      "way.\n";
  for (const NamedShape& named : given.shapes) text += "\n" + shape_text(named) + conclusion(named);
  return text;
}

Json row_json(const ComparedHeads& row) {
  Json ways;
  for (std::size_t way = 0; way < row.ways.size(); ++way) {
    ways[std::string(kComparedWays[way])] = {{"microseconds", row.ways[way].microseconds},
                                             {"parameters", row.ways[way].parameters},
                                             {"working_numbers", row.ways[way].working_numbers}};
  }
  return {{"heads", row.heads},
          {"head_dim", row.head_dim},
          {"width", row.width},
          {"numbers", row.numbers},
          {"loop_differs", row.loop_differs},
          {"split_differs", row.split_differs},
          {"single_difference", row.single_difference},
          {"ways", std::move(ways)}};
}

std::string report_json(const CompareArguments& given) {
  Json shapes = Json::array();
  for (const NamedShape& named : given.shapes) {
    const CompareShape& shape = named.shape;
    Json rows = Json::array();
    for (const ComparedHeads& row : named.rows) rows.push_back(row_json(row));
    shapes.push_back({{"name", named.name},
                      {"batch", shape.batch},
                      {"seq", shape.seq},
                      {"d_in", shape.d_in},
                      {"d_out", shape.d_out},
                      {"width_per_head", shape.width_per_head},
                      {"rounds", shape.rounds},
                      {"rows", std::move(rows)}});
  }
  const Json document{
      {"schema", 1}, {"command", "compare"}, {"version", HEADWISE_VERSION}, {"shapes", std::move(shapes)}};
  return document.dump() + "\n";
}

std::string chart_of(const NamedShape& named) {
  Chart chart;
  chart.title = fmt::format("One forward, {} shape (seq={}, d_in={})", named.name, named.shape.seq, named.shape.d_in);
  chart.x_label = "heads";
  chart.y_label = "microseconds";
  chart.doubling = true;
  constexpr const char* kNames[] = {"loop over heads", "stacked wrapper", "weight-split", "single head"};
  for (std::size_t way = 0; way < std::size(kNames); ++way) {
    ChartSeries series{kNames[way], {}};
    for (const ComparedHeads& row : named.rows) {
      series.points.emplace_back(static_cast<double>(row.heads), row.ways[way].microseconds);
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart_svg(chart);
}

void write_charts(const CompareArguments& given) {
  const std::string stem = given.svg.substr(0, given.svg.size() - 4);
  for (const NamedShape& named : given.shapes) {
    OutputFile file(given.shapes.size() == 1 ? given.svg : fmt::format("{}-{}.svg", stem, named.name));
    file.write(std::string_view(chart_of(named)));
    file.commit();
  }
}

}  // namespace

CommandResult compare_command(std::span<const std::string> arguments, const CommandContext& context) {
  CompareArguments given = parse(arguments);
  if (given.help) return kHelp;
  Execution execution;
  execution.cancel = context.cancel;
  for (NamedShape& named : given.shapes) named.rows = compare_layers(named.shape, execution);
  if (!given.svg.empty()) write_charts(given);
  return given.json ? report_json(given) : report_text(given);
}

}  // namespace headwise::cli
