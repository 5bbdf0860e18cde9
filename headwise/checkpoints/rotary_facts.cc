// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/rotary_facts.h"

#include <fmt/format.h>

#include <string>

#include "headwise/io/file_error.h"
#include "headwise/kernels/rotary.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// An object within the file, with its key in front of every message.
ConfigFile part_of(const ConfigFile& config, const char* key) {
  return {config.path() + ": \"" + key + "\"", config.find(key)->dump()};
}

// The published factor by which longer contexts sharpen attention.
double yarn_sharpening(double factor, double strength) {
  return factor <= 1 ? 1.0 : 0.1 * strength * natural_logarithm(factor) + 1.0;
}

void read_yarn(const ConfigFile& config, const ConfigFile& scaling, RotaryRule& rule) {
  const auto number = [&](const char* key, double otherwise) {
    return scaling.find(key) == nullptr ? otherwise : scaling.number(key);
  };
  rule.scaling = RotaryScaling::kYarn;
  rule.original_context = scaling.find("original_max_position_embeddings") != nullptr
                              ? scaling.size("original_max_position_embeddings")
                              : config.size("max_position_embeddings");
  rule.beta_fast = number("beta_fast", 32);
  rule.beta_slow = number("beta_slow", 1);
  if (scaling.find("truncate") != nullptr) rule.rounded = scaling.flag("truncate");
  const double strength = number("mscale", 0), all = number("mscale_all_dim", 0);
  const double usual = strength != 0 && all != 0
                           ? yarn_sharpening(rule.factor, strength) / yarn_sharpening(rule.factor, all)
                           : yarn_sharpening(rule.factor, 1);
  rule.attention_factor = number("attention_factor", usual);
}

void read_scaling(const ConfigFile& config, const ConfigFile& scaling, RotaryRule& rule) {
  std::string type = "default";
  if (scaling.find("type") != nullptr) type = scaling.text("type");
  if (scaling.find("rope_type") != nullptr) type = scaling.text("rope_type");
  if (scaling.find("rope_theta") != nullptr) rule.base = scaling.number("rope_theta");
  scaling.require_if_given("partial_rotary_factor", 1.0);
  if (type == "default") return;
  if (type != "linear" && type != "llama3" && type != "yarn") {
    scaling.fail(
        fmt::format("\"rope_type\" is {}; headwise computes default, linear, llama3 and yarn", quote_name(type)));
  }
  rule.factor = scaling.number("factor");
  if (type == "yarn") return read_yarn(config, scaling, rule);
  rule.scaling = RotaryScaling::kLinear;
  if (type == "linear") return;
  rule.scaling = RotaryScaling::kLlama3;
  rule.low_freq_factor = scaling.number("low_freq_factor");
  rule.high_freq_factor = scaling.number("high_freq_factor");
  rule.original_context = scaling.size("original_max_position_embeddings");
}

// Whether layer_types, which newer files have, gives the layer a window; no value: there is no such list.
std::optional<bool> listed_window(const ConfigFile& config, std::optional<Index> number) {
  const nlohmann::json* types = config.find("layer_types");
  if (types == nullptr) return std::nullopt;
  if (!types->is_array()) config.fail("\"layer_types\" must be an array");
  if (!number || *number < 0 || *number >= static_cast<Index>(types->size())) {
    config.fail(
        fmt::format("\"layer_types\" tells the windows of {} layers, and the layer is not one of them", types->size()));
  }
  const nlohmann::json& type = (*types)[static_cast<std::size_t>(*number)];
  if (type == "sliding_attention") return true;
  if (type == "full_attention") return false;
  config.fail(fmt::format("\"layer_types\" of layer {} must be \"full_attention\" or \"sliding_attention\"", *number));
}

}  // namespace

RotaryRule rotary_of(const ConfigFile& config) {
  RotaryRule rule;
  config.require_if_given("partial_rotary_factor", 1.0);  // these families turn whole heads
  if (config.find("rope_theta") != nullptr) rule.base = config.number("rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (config.find(key) != nullptr) read_scaling(config, part_of(config, key), rule);
  }
  return rule;
}

std::optional<Index> window_of(const ConfigFile& config, std::optional<Index> number) {
  const std::string type = config.text("model_type");
  const bool optional = type == "qwen2" || type == "qwen3";
  // Llama's class has no window, whatever its config holds.
  if (type == "llama" || config.find("sliding_window") == nullptr) return std::nullopt;
  if (!optional && type != "mistral") {
    config.fail(
        fmt::format("\"sliding_window\" is given, and headwise does not know what it means in {}", quote_name(type)));
  }
  if (optional && (config.find("use_sliding_window") == nullptr || !config.flag("use_sliding_window"))) {
    return std::nullopt;
  }
  // Both families count the query's own key.
  const Index window = config.size("sliding_window") - 1;
  if (!optional) return window;
  if (const std::optional<bool> listed = listed_window(config, number)) {
    return *listed ? std::optional(window) : std::nullopt;
  }
  if (config.find("max_window_layers") == nullptr) return window;
  if (!number) config.fail("\"max_window_layers\" is given, and the layer has no number");
  const nlohmann::json& first = *config.find("max_window_layers");
  if (!first.is_number_unsigned()) config.fail("\"max_window_layers\" must be a whole number");
  return *number >= first.get<Index>() ? std::optional(window) : std::nullopt;
}

}  // namespace headwise
