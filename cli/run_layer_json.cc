// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "cli/run_layer_report.h"

namespace headwise::cli {
namespace {

using Json = nlohmann::ordered_json;

Json array_json(const ReportedArray& array) {
  return {{"name", array.name}, {"dtype", dtype_name(array.dtype)}, {"shape", array.shape}};
}

Json file_json(const std::string& path, const ReportedArray& array) {
  Json entry{{"path", path}};
  entry.update(array_json(array));
  return entry;
}

Json layer_json(const RunLayerReport& report) {
  const AttentionConfig& config = report.config;
  Json layer{{"path", report.layer_path},
             {"kind", config.who},
             {"heads", report.sizes.heads},
             {"kv_heads", report.sizes.kv_heads},
             {"head_dim", report.sizes.head_dim},
             {"d_in", config.d_in},
             {"d_out", config.d_out},
             {"causal", config.causal}};
  layer["context_length"] = config.context_length ? Json(*config.context_length) : Json(nullptr);
  return layer;
}

Json heads_json(const RunLayerReport& report) {
  Json heads = Json::array();
  for (Index head = 0; head < report.sizes.heads; ++head) {
    Json entry{{"head", head}};
    for (const auto& [name, means] : report.means) entry[name] = means[static_cast<std::size_t>(head)];
    heads.push_back(std::move(entry));
  }
  return heads;
}

Json out_json(const RunLayerReport& report) {
  Json out = array_json(report.out);
  const ValueRange& values = report.values;
  const bool any = values.finite > 0;
  out["least"] = any ? Json(values.least) : Json(nullptr);
  out["most"] = any ? Json(values.most) : Json(nullptr);
  out["mean"] = any ? Json(values.mean) : Json(nullptr);
  out["not_finite"] = values.not_finite;
  return out;
}

}  // namespace

std::string run_layer_json(const RunLayerReport& report) {
  Json document{{"schema", 1},
                {"command", "run"},
                {"version", HEADWISE_VERSION},
                {"layer", layer_json(report)},
                {"input", file_json(report.input_path, report.input)}};
  document["keys_values"] =
      report.keys_values_path.empty() ? Json(nullptr) : file_json(report.keys_values_path, report.keys_values);
  document["out"] = out_json(report);
  document["queries"] = report.queries;
  document["queries_seeing"] = report.seeing;
  document["heads"] = heads_json(report);
  document["written"] = nullptr;
  if (!report.out_path.empty()) {
    Json arrays = Json::array();
    for (const ReportedArray& array : report.written) arrays.push_back(array_json(array));
    document["written"] = Json{{"path", report.out_path}, {"arrays", std::move(arrays)}};
  }
  // The name of a file need not be UTF-8.
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace headwise::cli
