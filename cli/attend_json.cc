// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/attend_report.h"

namespace headwise::cli {
namespace {

using Json = nlohmann::ordered_json;

// The shortest decimals that give the float back, instead of the 17 digits of its double.
double as_shortest(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

Json sentences_json(const AttentionTrace& trace) {
  Json sentences = Json::array();
  for (const TracedSentence& sentence : trace.sentences) {
    sentences.push_back({{"ids", sentence.ids}, {"tokens", sentence.tokens}});
  }
  return sentences;
}

Json path_json(const AttendReport& report) {
  Json steps = Json::array();
  for (const ShapeStep& step : report.path) {
    Json entry{{"name", step.name}, {"how", step.how}, {"axes", step.axes}, {"shape", step.shape}};
    entry["strides"] = step.memory == StepMemory::kNeverStored ? Json(nullptr) : Json(step.strides);
    entry["memory"] = memory_name(step.memory);
    steps.push_back(std::move(entry));
  }
  return {{"layer", report.path_layer}, {"sentence", 0}, {"steps", std::move(steps)}};
}

Json pair_json(const AttentionTrace& trace, const std::optional<StrongestPair>& pair) {
  if (!pair) return nullptr;
  const std::vector<std::string>& tokens = trace.sentences[pair->sentence].tokens;
  return {{"sentence", pair->sentence},
          {"query", pair->query},
          {"key", pair->key},
          {"query_token", tokens[pair->query]},
          {"key_token", tokens[pair->key]},
          {"weight", as_shortest(static_cast<float>(pair->weight))}};
}

Json heads_json(const AttendReport& report) {
  Json heads = Json::array();
  for (const HeadSummary& head : report.heads) {
    heads.push_back({{"layer", head.layer},
                     {"head", head.head},
                     {"entropy", head.entropy},
                     {"self", head.self},
                     {"previous", head.previous},
                     {"next", head.next},
                     {"first", head.first},
                     {"separator", head.separator ? Json(*head.separator) : Json(nullptr)},
                     {"strongest", pair_json(*report.trace, head.strongest)}});
  }
  return heads;
}

Json weights_json(const AttendReport& report) {
  Json all = Json::array();
  for (std::size_t i = 0; i < report.weights.size(); ++i) {
    const TensorView<const float, 2> weights = report.weights[i].view();
    Json rows = Json::array();
    for (Index row = 0; row < weights.size(0); ++row) {
      Json values = Json::array();
      for (Index key = 0; key < weights.size(1); ++key) values.push_back(as_shortest(weights(row, key)));
      rows.push_back(std::move(values));
    }
    all.push_back({{"sentence", i}, {"layer", *report.layer}, {"head", *report.head}, {"values", std::move(rows)}});
  }
  return all;
}

Json ablation_json(const AttendReport& report) {
  Json scales = Json::array(), ranking = Json::array();
  for (const HeadScale& one : report.scales) {
    scales.push_back({{"layer", one.layer}, {"head", one.head}, {"scale", one.scale}});
  }
  for (const HeadEffect& one : report.ranking) {
    ranking.push_back({{"layer", one.layer}, {"head", one.head}, {"effect", one.effect}});
  }
  Json entry{{"scales", std::move(scales)}};
  entry["effect"] = report.effect ? Json(*report.effect) : Json(nullptr);
  entry["ranking"] = std::move(ranking);
  return entry;
}

}  // namespace

std::string attend_json(const AttendReport& report) {
  const ModelSizes& model = report.model;
  Json document{{"schema", 1},
                {"command", "attend"},
                {"version", HEADWISE_VERSION},
                {"model",
                 {{"path", report.trace->model},
                  {"layers", model.layers},
                  {"heads", model.heads},
                  {"head_dim", model.hidden / model.heads},
                  {"hidden", model.hidden}}},
                {"sentences", sentences_json(*report.trace)},
                {"path", path_json(report)},
                {"heads", heads_json(report)}};
  if (report.head) document["weights"] = weights_json(report);
  if (report.effect || !report.ranking.empty()) document["ablation"] = ablation_json(report);
  // The name of a folder need not be UTF-8.
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace headwise::cli
