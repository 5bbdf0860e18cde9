// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands.h"
#include "cli/option_words.h"
#include "cli/text_table.h"
#include "cli/usage.h"
#include "headwise/checkpoints/inspect_attention.h"

namespace headwise::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise inspect model.safetensors\n"
    "  headwise inspect DIR --json\n"
    "\n"
    "Usage: headwise inspect PATH [--json]\n"
    "\n"
    "The attention layers of a safetensors file, of a model.safetensors.index.json, or of a folder with one of them: "
    "for\n"
    "each the family whose names it has, how its weights lie, its sizes, rotary positions, window, biases and type.\n"
    "What a layer has not is shown as '-', what no file says as\n"
    "'?', and several families as the candidates among which --family of run or --from of convert must choose. No "
    "weight\n"
    "is read.\n"
    "\n"
    "Where config.json contradicts the tensors, the tensors are shown, the contradiction is named, and the exit code "
    "is 1;\n"
    "load, run and convert refuse such a layer.\n"
    "\n"
    "Options:\n"
    "  --json      one JSON document; null where no file says it\n"
    "  -h, --help  this text\n";

template <class Value>
Json json_of(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// False where the layer has none, null where no file says it.
Json rotary_json(const AttentionSummary& layer) {
  if (!layer.rotary) return json_of(layer.has_rotary);
  const RotaryRule& rule = *layer.rotary;
  return {{"style", rotary_style_name(rule.style)},
          {"rotary_dim", rule.rotary_dim == 0 ? json_of(layer.head_dim) : Json(rule.rotary_dim)},
          {"base", rule.base},
          {"scaling", rotary_scaling_name(rule.scaling)},
          {"factor", rule.factor}};
}

Json window_json(const AttentionSummary& layer) {
  return layer.window_left ? Json(*layer.window_left) : json_of(layer.has_window);
}

Json layer_json(const AttentionSummary& layer) {
  return {{"name", layer.name},
          {"number", json_of(layer.number)},
          {"family", layer.families.size() == 1 ? Json(layer.families.front()) : Json(nullptr)},
          {"candidates", layer.families},
          {"layout", json_of(layer.layout)},
          {"heads", json_of(layer.heads)},
          {"kv_heads", json_of(layer.kv_heads)},
          {"head_dim", json_of(layer.head_dim)},
          {"d_in", json_of(layer.d_in)},
          {"d_out", json_of(layer.d_out)},
          {"qkv_bias", json_of(layer.qkv_bias)},
          {"out_proj", json_of(layer.out_proj)},
          {"out_bias", json_of(layer.out_bias)},
          {"causal", json_of(layer.causal)},
          {"rotary", rotary_json(layer)},
          {"window_left", window_json(layer)},
          {"dtype", layer.dtype},
          {"parameters", json_of(layer.parameters)},
          {"problem", layer.problem.empty() ? Json(nullptr) : Json(in_option_words("inspect", layer.problem))},
          {"contradiction", layer.contradiction}};
}

std::string inspection_json(const AttentionInspection& inspection) {
  Json layers = Json::array();
  for (const AttentionSummary& layer : inspection.layers) layers.push_back(layer_json(layer));
  const Json document{{"schema", 1},
                      {"command", "inspect"},
                      {"version", HEADWISE_VERSION},
                      {"path", inspection.path},
                      {"files", inspection.files},
                      {"layers", layers},
                      {"totals",
                       {{"layers", inspection.layers.size()},
                        {"attention_parameters", inspection.attention_parameters},
                        {"parameters", inspection.parameters}}}};
  // The name of a folder need not be UTF-8.
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string text_of(const std::optional<Index>& count) { return count ? std::to_string(*count) : "?"; }

std::string text_of(const std::optional<bool>& flag) { return !flag ? "?" : *flag ? "yes" : "no"; }

// "qkv, out", "no out_proj": which of the optional parts there are.
std::string parts_of(const AttentionSummary& layer) {
  if (!layer.qkv_bias || !layer.out_proj || !layer.out_bias) return "?";
  std::string text = *layer.qkv_bias && *layer.out_bias ? "qkv, out"
                     : *layer.qkv_bias                  ? "qkv"
                     : *layer.out_bias                  ? "out"
                                                        : "none";
  return *layer.out_proj ? text : text + "; no out_proj";
}

// "half_split, base 500000, llama3 8": style, base, and the scaling with its factor where there is one.
std::string rotary_of(const AttentionSummary& layer) {
  if (!layer.rotary) return layer.has_rotary ? "-" : "?";
  const RotaryRule& rule = *layer.rotary;
  std::string text = fmt::format("{}, base {}", rotary_style_name(rule.style), rule.base);
  if (rule.scaling == RotaryScaling::kNone) return text;
  return text + fmt::format(", {} {}", rotary_scaling_name(rule.scaling), rule.factor);
}

std::string window_of(const AttentionSummary& layer) {
  if (layer.window_left) return std::to_string(*layer.window_left);
  return layer.has_window ? "-" : "?";
}

std::string layer_name(const AttentionSummary& layer) { return layer.name.empty() ? "(the file)" : layer.name; }

bool is_contradicted(const AttentionInspection& inspection) {
  const auto& layers = inspection.layers;
  return std::any_of(layers.begin(), layers.end(), [](const auto& layer) { return layer.contradiction; });
}

// Each reason once, with the layers that it keeps from being loaded: contradictions, or the others.
std::string problems_of(const AttentionInspection& inspection, bool contradictions) {
  std::vector<std::pair<std::string, std::vector<std::string>>> problems;
  for (const AttentionSummary& layer : inspection.layers) {
    if (layer.problem.empty() || layer.contradiction != contradictions) continue;
    const auto same = [&](const auto& one) { return one.first == layer.problem; };
    auto known = std::find_if(problems.begin(), problems.end(), same);
    if (known == problems.end()) known = problems.insert(known, {layer.problem, {}});
    known->second.push_back(layer_name(layer));
  }
  std::string text;
  for (const auto& [problem, layers] : problems) {
    const std::string more = layers.size() > 1 ? fmt::format(" and {} more", layers.size() - 1) : "";
    text += fmt::format("  {}{}: {}\n", layers.front(), more, in_option_words("inspect", problem));
  }
  if (text.empty()) return text;
  return (contradictions ? "The files contradict each other, so that these are refused:\n"
                         : "Cannot be loaded as they are:\n") +
         text;
}

std::string inspection_text(const AttentionInspection& inspection) {
  const std::string files = inspection.files == 1 ? "" : fmt::format(" ({} files)", inspection.files);
  if (inspection.layers.empty()) {
    return fmt::format("{}{}: no attention layer that headwise knows, {}\n", inspection.path, files,
                       counted(inspection.parameters, "parameter"));
  }
  std::vector<std::vector<std::string>> rows{{"layer", "name", "family", "layout", "heads", "kv_heads", "head_dim",
                                              "d_in", "d_out", "causal", "rotary", "window", "biases", "dtype",
                                              "parameters"}};
  for (const AttentionSummary& layer : inspection.layers) {
    rows.push_back({layer.number ? std::to_string(*layer.number) : "-", layer_name(layer),
                    fmt::format("{}", fmt::join(layer.families, " | ")), layer.layout.value_or("?"),
                    text_of(layer.heads), text_of(layer.kv_heads), text_of(layer.head_dim), text_of(layer.d_in),
                    text_of(layer.d_out), text_of(layer.causal), rotary_of(layer), window_of(layer), parts_of(layer),
                    layer.dtype, text_of(layer.parameters)});
  }
  constexpr Align kL = Align::kLeft, kR = Align::kRight;
  const Align columns[] = {kR, kL, kL, kL, kR, kR, kR, kR, kR, kL, kL, kR, kL, kL, kR};
  std::string text = fmt::format("{}{}\n", inspection.path, files) + text_table(columns, rows);
  text += fmt::format("{}, {} of {}\n", counted(static_cast<Index>(inspection.layers.size()), "attention layer"),
                      inspection.attention_parameters, counted(inspection.parameters, "parameter"));
  return text + problems_of(inspection, true) + problems_of(inspection, false);
}

}  // namespace

CommandResult inspect_command(std::span<const std::string> arguments, const CommandContext&) {
  CLI::App app;
  app.set_help_flag("");
  bool json = false, help = false;
  std::vector<std::string> paths;
  app.add_flag("--json", json)->disable_flag_override();
  app.add_flag("-h,--help", help)->disable_flag_override();
  app.add_option("path", paths);
  parse_arguments(app, arguments);
  if (help) return kHelp;
  const std::string path = take_paths(paths, {"PATH"}).front();
  const AttentionInspection inspection = inspect_attention(path);
  return {json ? inspection_json(inspection) : inspection_text(inspection),
          is_contradicted(inspection) ? kCheckFailed : kDone};
}

}  // namespace headwise::cli
