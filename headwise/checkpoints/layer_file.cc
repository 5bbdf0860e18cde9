// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/layer_file.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "headwise/checkpoints/complete_fact.h"
#include "headwise/checkpoints/layer_layout.h"
#include "headwise/checkpoints/make_layer.h"
#include "headwise/checkpoints/widen.h"
#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

// In AnyLayer's order.
template <class T>
LayerKind kind_of(const AnyLayer<T>& layer) {
  constexpr LayerKind kKinds[] = {LayerKind::kMultiHeadAttention, LayerKind::kCausalSelfAttention,
                                  LayerKind::kMultiHeadAttentionWrapper, LayerKind::kMultiHeadAttentionLayer};
  return kKinds[layer.index()];
}

// What the call gives, then what the metadata stores, then what the names of the tensors tell.
LayerFacts complete_facts(const std::string& path, LayerFacts facts, const LayerFacts& stored,
                          const LayerLayout& layout) {
  complete_fact("load", "kind", facts.kind, stored.kind, path);
  complete_fact("load", "kind", facts.kind, layout.kind, path);
  if (!facts.kind) fail_missing_fact("load", "kind (MultiHeadAttention or CausalSelfAttention)", path);
  complete_fact("load", "num_heads", facts.num_heads, stored.num_heads, path);
  complete_fact("load", "num_heads", facts.num_heads, layout.num_heads, path);
  complete_fact("load", "causal", facts.causal, stored.causal, path);
  if (*facts.kind == LayerKind::kCausalSelfAttention) {
    complete_fact("load", "num_heads", facts.num_heads, std::optional<Index>(1), path);
    complete_fact("load", "causal", facts.causal, std::optional(true), path);
  }
  if (!facts.num_heads) fail_missing_fact("load", "num_heads", path);
  if (!facts.causal) fail_missing_fact("load", "causal", path);
  if (!facts.dropout) facts.dropout = stored.dropout;
  if (!facts.dropout) fail_missing_fact("load", "dropout", path);
  if (!facts.context_length) facts.context_length = stored.context_length;
  if (!facts.seed) facts.seed = stored.seed;
  complete_fact("load", "query_key_norm", facts.query_key_norm, stored.query_key_norm, path);
  complete_fact("load", "rotary", facts.rotary, stored.rotary, path);
  complete_fact("load", "window_left", facts.window_left, stored.window_left, path);
  return facts;
}

// The layer's facts as metadata; its tensors into `tensors`.
template <class T>
std::map<std::string, std::string> describe(AnyLayer<T>& layer, std::vector<NamedTensor>& tensors) {
  LayerFacts facts;
  facts.kind = kind_of(layer);
  tensors = std::visit(
      [&](auto& any) {
        const AttentionConfig& config = any.config();
        facts.num_heads = config.num_heads;
        facts.causal = config.causal;
        facts.dropout = config.dropout;
        facts.context_length = config.context_length;
        facts.seed = any.seed();
        facts.query_key_norm = config.query_key_norm;
        facts.rotary = config.rotary;
        facts.window_left = config.window_left;
        return any.state();
      },
      layer);
  return to_metadata(facts);
}

template <class T>
AnyLayer<T> layer_of(const SafetensorsFile& file, const LayerFacts& given) {
  const std::string& path = file.path();
  const LayerLayout layout = read_layer_layout(file);
  const LayerFacts facts = complete_facts(path, given, facts_from_metadata(path, file.metadata()), layout);
  try {
    AnyLayer<T> layer = make_layer<T>(facts, layout, path);
    const WidenedTensors widened(file.tensors());
    std::visit([&](auto& any) { any.load(widened.tensors()); }, layer);
    return layer;
  } catch (const std::invalid_argument& error) {
    // Sizes, names and types of the file that do not fit together: say whose they are.
    throw FileError(path, error.what());
  }
}

}  // namespace

template <class T>
void save_layer(const std::string& path, AnyLayer<T>& layer) {
  std::vector<NamedTensor> tensors;
  const std::map<std::string, std::string> metadata = describe(layer, tensors);
  write_safetensors(path, tensors, metadata);
}

template <class T>
std::string pack_layer(AnyLayer<T>& layer) {
  std::vector<NamedTensor> tensors;
  const std::map<std::string, std::string> metadata = describe(layer, tensors);
  return pack_safetensors(tensors, metadata);
}

template <class T>
AnyLayer<T> load_layer(const std::string& path, const LayerFacts& given) {
  return layer_of<T>(SafetensorsFile(path), given);
}

template <class T>
AnyLayer<T> unpack_layer(std::string_view name, std::span<const std::byte> bytes) {
  return layer_of<T>(SafetensorsFile(std::string(name), bytes), {});
}

DType layer_file_dtype(const std::string& path) {
  const SafetensorsFile file(path);
  std::optional<DType> dtype;
  for (const SafetensorsEntry& entry : file.header().entries) {
    if (!entry.name.ends_with(".weight") && !entry.name.ends_with(".bias")) continue;
    const DType stored = file.tensor(entry.name).dtype;
    const DType wanted = widens_to_float(stored) ? DType::kFloat32 : stored;
    if (!dtype) dtype = wanted;
    const bool known = wanted == DType::kFloat32 || wanted == DType::kFloat64;
    if (known && wanted == dtype) continue;
    throw FileError(path, fmt::format("tensor {} is {}; the weights of a layer are all float64, or float32, float16 "
                                      "and bfloat16",
                                      quote_name(entry.name), entry.type->name));
  }
  if (!dtype) throw FileError(path, "there are no weights");
  return *dtype;
}

template HEADWISE_EXPORT void save_layer(const std::string&, AnyLayer<float>&);
template HEADWISE_EXPORT void save_layer(const std::string&, AnyLayer<double>&);
template HEADWISE_EXPORT std::string pack_layer(AnyLayer<float>&);
template HEADWISE_EXPORT std::string pack_layer(AnyLayer<double>&);
template HEADWISE_EXPORT AnyLayer<float> unpack_layer(std::string_view, std::span<const std::byte>);
template HEADWISE_EXPORT AnyLayer<double> unpack_layer(std::string_view, std::span<const std::byte>);
template HEADWISE_EXPORT AnyLayer<float> load_layer(const std::string&, const LayerFacts&);
template HEADWISE_EXPORT AnyLayer<double> load_layer(const std::string&, const LayerFacts&);

}  // namespace headwise
