// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "cli/explain_report.h"

namespace headwise::cli {
namespace {

using Json = nlohmann::ordered_json;

Json table_json(const ExplainTable& table) {
  return {{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}};
}

Json section_json(const ExplainSection& section) {
  Json tables = Json::array();
  for (const ExplainTable& table : section.tables) tables.push_back(table_json(table));
  return {{"id", section.id},
          {"title", section.title},
          {"paragraphs", section.paragraphs},
          {"tables", std::move(tables)},
          {"conclusions", section.conclusions}};
}

Json sections_json(const std::vector<ExplainSection>& sections) {
  Json list = Json::array();
  for (const ExplainSection& section : sections) list.push_back(section_json(section));
  return list;
}

template <int Rank>
Json nested(TensorView<const double, Rank> view) {
  Json list = Json::array();
  for (Index i = 0; i < view.size(0); ++i) {
    if constexpr (Rank == 1) {
      list.push_back(view(i));
    } else {
      list.push_back(nested<Rank - 1>(view.select(0, i)));
    }
  }
  return list;
}

Json path_json(const std::vector<ShapeStep>& path) {
  Json list = Json::array();
  for (const ShapeStep& step : path) {
    Json entry{{"name", step.name}, {"how", step.how}, {"axes", step.axes}, {"shape", step.shape}};
    entry["strides"] = step.strides.empty() ? Json(nullptr) : Json(step.strides);
    entry["memory"] = memory_name(step.memory);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string explain_json(const ExplainReport& report) {
  const Explanation& found = report.found;
  Json document{{"schema", 1}, {"command", "explain"}, {"version", HEADWISE_VERSION}};
  document["layer"] = {{"path", report.layer},
                       {"heads", found.sizes.heads},
                       {"kv_heads", found.sizes.kv_heads},
                       {"head_dim", found.sizes.head_dim},
                       {"d_in", found.config.d_in},
                       {"d_out", found.config.d_out},
                       {"causal", found.config.causal},
                       {"parameters", found.parameters}};
  document["input"] = report.input.empty() ? Json(nullptr) : Json(report.input);
  document["token"] = found.token;
  document["difference"] = found.difference;
  document["path"] = path_json(found.path);
  document["steps"] = sections_json(found.steps);
  document["what_ifs"] = sections_json(found.what_ifs);
  document["widths"] = section_json(found.widths);
  document["scores"] = nested<3>(found.scores.cview());
  document["weights"] = nested<3>(found.weights.cview());
  document["out"] = nested<2>(found.out.cview());
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace headwise::cli
