// SPDX-License-Identifier: Apache-2.0
#include "cli/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/line_chart.h"
#include "cli/paths.h"
#include "cli/text_table.h"
#include "cli/train_progress.h"
#include "headwise/io/utf8.h"

namespace headwise::cli {
namespace {

using Json = nlohmann::ordered_json;

// 806,656
std::string grouped(Index number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

// The validation losses of one head count.
struct HeadLosses {
  std::vector<double> losses;

  double mean() const {
    double sum = 0;
    for (const double loss : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
  }
  // The standard deviation of a sample; 0 of a single value.
  double spread() const {
    if (losses.size() < 2) return 0;
    double squares = 0;
    for (const double loss : losses) squares += (loss - mean()) * (loss - mean());
    return std::sqrt(squares / static_cast<double>(losses.size() - 1));
  }
  double lowest() const { return *std::min_element(losses.begin(), losses.end()); }
  double highest() const { return *std::max_element(losses.begin(), losses.end()); }
};

std::map<Index, HeadLosses> by_heads(std::span<const TrainResult> results) {
  std::map<Index, HeadLosses> groups;
  for (const TrainResult& result : results) groups[result.decoder.heads].losses.push_back(result.validation_loss);
  return groups;
}

Json model_json(const TrainResult& result) {
  const DecoderConfig& decoder = result.decoder;
  return {{"layers", decoder.layers},     {"heads", decoder.heads}, {"hidden", decoder.hidden},
          {"context", decoder.positions}, {"tokenizer", "bytes"},   {"vocab", decoder.vocab}};
}

Json run_json(const TrainResult& result) {
  Json evaluations = Json::array();
  for (const Evaluation& evaluation : result.evaluations) {
    evaluations.push_back({{"step", evaluation.step}, {"loss", evaluation.loss}});
  }
  return {{"folder", result.folder},
          {"model", model_json(result)},
          {"seed", result.training.seed},
          {"steps", result.training.learning_rate.steps},
          {"batch", result.training.batch},
          {"train_loss", result.train_loss},
          {"validation_loss", result.validation_loss},
          {"evaluations", std::move(evaluations)},
          {"steps_now", result.steps},
          {"seconds", result.seconds},
          {"tokens_per_second", result.tokens_per_second}};
}

}  // namespace

std::string train_text(const TrainResult& result) {
  const DecoderConfig& decoder = result.decoder;
  const std::string folder = printable(result.folder);
  std::string text =
      fmt::format("{}: {} of {}, hidden {}, context {}, {} parameters\n", folder, counted(decoder.layers, "layer"),
                  counted(decoder.heads, "head"), decoder.hidden, decoder.positions, grouped(result.parameters));
  text += fmt::format("  text        {} bytes, of which {} the vocabulary\n", grouped(result.text_bytes),
                      decoder.vocab == 1 ? "1 is" : fmt::format("{} different ones are", decoder.vocab));
  text += fmt::format("  steps       {} of {}", result.training.learning_rate.steps,
                      counted(result.training.batch, "sequence"));
  if (result.steps > 0) {
    text += fmt::format(", {} of them now in {}: {} tokens/s", result.steps, clock_text(result.seconds),
                        grouped(std::llround(result.tokens_per_second)));
  }
  text += fmt::format("\n  loss        {} in training (its last steps), {} in validation; nats per byte\n",
                      number_text(result.train_loss, 4), number_text(result.validation_loss, 4));
  text += "  files       config.json, model.safetensors, checkpoint.safetensors, curve.csv, curve.svg\n";
  return text + fmt::format("Next: headwise generate {}\n", shell_word(folder));
}

std::string compare_text(const std::string& folder, std::span<const TrainResult> results) {
  const TrainResult& first = results.front();
  const auto groups = by_heads(results);
  std::vector<std::vector<std::string>> rows{{"heads", "head_dim", "seeds", "mean", "spread", "lowest", "highest"}};
  for (const auto& [heads, group] : groups) {
    rows.push_back({std::to_string(heads), std::to_string(first.decoder.hidden / heads),
                    std::to_string(group.losses.size()), number_text(group.mean(), 4), number_text(group.spread(), 4),
                    number_text(group.lowest(), 4), number_text(group.highest(), 4)});
  }
  const std::vector<Align> columns(rows[0].size(), Align::kRight);
  return fmt::format("Validation loss by the number of heads, nats per byte; {} parameters each:\n",
                     grouped(first.parameters)) +
         text_table(columns, rows) +
         fmt::format("{}: losses.csv, losses.json, losses.svg, and a folder for each model\n", printable(folder));
}

std::string train_json(const std::string& folder, std::span<const TrainResult> results) {
  Json runs = Json::array(), groups = Json::array();
  for (const TrainResult& result : results) runs.push_back(run_json(result));
  for (const auto& [heads, group] : by_heads(results)) {
    groups.push_back({{"heads", heads},
                      {"mean", group.mean()},
                      {"spread", group.spread()},
                      {"lowest", group.lowest()},
                      {"highest", group.highest()}});
  }
  const Json document{{"schema", 1},
                      {"command", "train"},
                      {"version", HEADWISE_VERSION},
                      {"folder", folder},
                      {"parameters", results.front().parameters},
                      {"text_bytes", results.front().text_bytes},
                      {"by_heads", std::move(groups)},
                      {"runs", std::move(runs)}};
  // The name of a folder need not be UTF-8.
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string compare_csv(std::span<const TrainResult> results) {
  std::string text = "heads,seed,train_loss,validation_loss\n";
  for (const TrainResult& result : results) {
    text += fmt::format("{},{},{},{}\n", result.decoder.heads, result.training.seed, result.train_loss,
                        result.validation_loss);
  }
  return text;
}

std::string compare_svg(std::span<const TrainResult> results) {
  ChartSeries means{"mean", {}, true, false}, single{"one model", {}, false, true};
  for (const auto& [heads, group] : by_heads(results)) {
    means.points.emplace_back(static_cast<double>(heads), group.mean());
    for (const double loss : group.losses) single.points.emplace_back(static_cast<double>(heads), loss);
  }
  return line_chart_svg({"Loss against the number of heads, all models of one size",
                         "heads",
                         "validation loss, nats per byte",
                         {means, single},
                         true});
}

}  // namespace headwise::cli
