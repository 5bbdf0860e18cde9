// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/load_encoder.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/checkpoints/encoder_rules.h"
#include "headwise/checkpoints/widen.h"
#include "headwise/io/closest_names.h"
#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

// The tensors of one file, looked up by a family's rules.
class EncoderSource {
 public:
  EncoderSource(const SafetensorsFile& file, const EncoderFamily& family, const EncoderConfig& config)
      : file_(file), family_(family), config_(config), prefix_(find_prefix()) {}

  // Every parameter of the encoder under our name, checked.
  std::vector<NamedTensor> tensors() {
    check_layer_count();
    std::vector<NamedTensor> found;
    for (const EncoderTensorRule& rule : family_.tensors) {
      const Index count = rule.name.find("{n}") == std::string_view::npos ? 1 : config_.layers;
      for (Index layer = 0; layer < count; ++layer) found.push_back(take(of_layer(rule.name, layer), rule));
    }
    refuse_strangers();
    return found;
  }

 private:
  // Layers that config.json does not count would be passed over.
  void check_layer_count() const {
    for (const EncoderTensorRule& rule : family_.tensors) {
      if (!rule.name.starts_with("encoder.layer.{n}.attention.")) continue;
      Index stored = config_.layers;
      while (file_.contains(std::string(prefix_).append(of_layer(rule.name, stored)))) ++stored;
      if (stored == config_.layers) continue;
      throw FileError(file_.path(), "stores " + std::to_string(stored) + " attention layers, but config.json counts " +
                                        std::to_string(config_.layers) + " (num_hidden_layers)");
    }
  }

  static std::string of_layer(std::string_view pattern, Index layer) {
    std::string name(pattern);
    const std::size_t mark = name.find("{n}");
    return mark == std::string::npos ? name : name.replace(mark, 3, std::to_string(layer));
  }

  std::string_view find_prefix() const {
    const std::string_view first = family_.tensors.front().name;
    for (const std::string_view prefix : family_.prefixes) {
      if (file_.contains(std::string(prefix).append(first))) return prefix;
    }
    return family_.prefixes.front();
  }

  NamedTensor take(const std::string& name, const EncoderTensorRule& rule) {
    const std::string in_file = name_in_file(name);
    NamedTensor tensor = file_.tensor(in_file);
    std::vector<Index> wanted{size_of(rule.rows, config_)};
    std::string keys(config_key(rule.rows));
    if (rule.columns != EncoderSize::kNone) {
      wanted.push_back(size_of(rule.columns, config_));
      keys += ", " + std::string(config_key(rule.columns));
    }
    if (tensor.shape != wanted) {
      fail(in_file,
           "must be " + format_shape(wanted) + " by config.json (" + keys + "), got " + format_shape(tensor.shape));
    }
    if (!widens_to_float(tensor.dtype)) {
      fail(in_file, "is " + std::string(dtype_name(tensor.dtype)) + "; an encoder takes float32, float16 or bfloat16");
    }
    taken_.insert(in_file);
    tensor.name = name;
    return tensor;
  }

  std::string name_in_file(const std::string& name) const {
    std::string usual = std::string(prefix_).append(name);
    if (file_.contains(usual)) return usual;
    for (const EndingRule& ending : family_.endings) {
      if (!usual.ends_with(ending.ours)) continue;
      std::string other = usual.substr(0, usual.size() - ending.ours.size()).append(ending.in_file);
      if (file_.contains(other)) return other;
    }
    std::vector<std::string> names;
    for (const SafetensorsEntry& entry : file_.header().entries) names.push_back(entry.name);
    std::string closest;
    for (const std::string& candidate : closest_names(usual, names, 3)) {
      closest += (closest.empty() ? "; closest: " : ", ") + quote_name(candidate);
    }
    if (closest.empty()) closest = "; it has " + std::to_string(names.size()) + " others";
    throw FileError(file_.path(), "there is no tensor " + quote_name(usual) + closest);
  }

  // A layer more than config.json counts is a disagreement, not something to pass over.
  void refuse_strangers() const {
    for (const SafetensorsEntry& entry : file_.header().entries) {
      std::string_view name = entry.name;
      if (taken_.contains(entry.name) || !name.starts_with(prefix_)) continue;
      name.remove_prefix(prefix_.size());
      const auto starts = [&](std::string_view start) { return name.starts_with(start); };
      if (std::none_of(family_.own.begin(), family_.own.end(), starts)) continue;
      if (std::find(family_.ignored.begin(), family_.ignored.end(), name) != family_.ignored.end()) continue;
      fail(entry.name, "belongs to no part of the encoder that config.json describes (num_hidden_layers=" +
                           std::to_string(config_.layers) + ")");
    }
  }

  [[noreturn]] void fail(std::string_view name, const std::string& reason) const {
    throw FileError(file_.path(), "tensor " + quote_name(name) + " " + reason);
  }

  const SafetensorsFile& file_;
  const EncoderFamily& family_;
  const EncoderConfig& config_;
  std::string_view prefix_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace

Encoder<float> load_encoder(const std::string& directory) {
  const EncoderConfig config = read_encoder_config(directory + "/config.json");
  const SafetensorsFile file(directory + "/model.safetensors");
  // There is one family so far; read_encoder_config has refused the others.
  const std::vector<NamedTensor> tensors = EncoderSource(file, encoder_families().front(), config).tensors();
  const WidenedTensors widened(tensors);
  Encoder<float> encoder(config);
  encoder.load(widened.tensors());
  return encoder;
}

}  // namespace headwise
