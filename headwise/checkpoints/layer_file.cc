// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/layer_file.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "headwise/checkpoints/layer_layout.h"
#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// In AnyLayer's order.
template <class T>
LayerKind kind_of(const AnyLayer<T>& layer) {
  constexpr LayerKind kKinds[] = {LayerKind::kMultiHeadAttention, LayerKind::kCausalSelfAttention,
                                  LayerKind::kMultiHeadAttentionWrapper, LayerKind::kMultiHeadAttentionLayer};
  return kKinds[layer.index()];
}

template <class Fact>
void complete(const char* name, std::optional<Fact>& given, const std::optional<Fact>& stored, const std::string& path,
              std::string (*shown)(Fact)) {
  if (!given) given = stored;
  if (!given || !stored || *given == *stored) return;
  throw ArgumentError(fmt::format("load: {}={} was given, but {} says {}", name, shown(*given), path, shown(*stored)));
}

[[noreturn]] void fail_missing(const std::string& path, const char* name) {
  throw ArgumentError(fmt::format("load: {} is neither stored in {} nor given", name, path));
}

// What the call gives, then what the metadata stores, then what the names of the tensors tell.
LayerFacts complete_facts(const std::string& path, LayerFacts facts, const LayerFacts& stored,
                          const LayerLayout& layout) {
  const auto kind_text = [](LayerKind kind) { return std::string(layer_kind_name(kind)); };
  const auto count_text = [](Index count) { return std::to_string(count); };
  const auto bool_text = [](bool flag) { return std::string(flag ? "true" : "false"); };
  complete<LayerKind>("kind", facts.kind, stored.kind, path, kind_text);
  complete<LayerKind>("kind", facts.kind, layout.kind, path, kind_text);
  if (!facts.kind) fail_missing(path, "kind (MultiHeadAttention or CausalSelfAttention)");
  complete<Index>("num_heads", facts.num_heads, stored.num_heads, path, count_text);
  complete<Index>("num_heads", facts.num_heads, layout.num_heads, path, count_text);
  complete<bool>("causal", facts.causal, stored.causal, path, bool_text);
  if (*facts.kind == LayerKind::kCausalSelfAttention) {
    complete<Index>("num_heads", facts.num_heads, Index{1}, path, count_text);
    complete<bool>("causal", facts.causal, true, path, bool_text);
  }
  if (!facts.num_heads) fail_missing(path, "num_heads");
  if (!facts.causal) fail_missing(path, "causal");
  if (!facts.dropout) facts.dropout = stored.dropout;
  if (!facts.dropout) fail_missing(path, "dropout");
  if (!facts.context_length) facts.context_length = stored.context_length;
  if (!facts.seed) facts.seed = stored.seed;
  return facts;
}

// The weight-split form, from which the others are cut. Throws as its constructor does.
MultiHeadAttentionOptions options_of(const LayerFacts& facts, const LayerLayout& layout) {
  MultiHeadAttentionOptions options;
  options.context_length = facts.context_length;
  options.dropout = *facts.dropout;
  options.num_heads = *facts.num_heads;
  options.qkv_bias = layout.qkv_bias;
  options.causal = *facts.causal;
  options.out_proj = layout.out_proj;
  options.out_bias = layout.out_bias;
  options.seed = facts.seed;
  return options;
}

template <class T>
AnyLayer<T> make_layer(const LayerFacts& facts, const LayerLayout& layout, const std::string& path) {
  const Index heads = *facts.num_heads;
  MultiHeadAttentionOptions options = options_of(facts, layout);
  if (heads < 1 || layout.query_rows % heads != 0) {
    throw FileError(path, fmt::format("the {} rows of the queries do not make {} heads", layout.query_rows, heads));
  }
  const Index head_dim = layout.query_rows / heads;
  switch (*facts.kind) {
    case LayerKind::kCausalSelfAttention:
      return CausalSelfAttention<T>(layout.d_in, layout.d_out, facts.context_length, *facts.dropout, layout.qkv_bias,
                                    facts.seed);
    case LayerKind::kMultiHeadAttentionLayer:
      return MultiHeadAttentionLayer<T>(layout.d_in, layout.d_out, facts.context_length, *facts.dropout, heads,
                                        layout.qkv_bias, *facts.causal, facts.seed);
    case LayerKind::kMultiHeadAttentionWrapper:
      return MultiHeadAttention<T>(layout.d_in, layout.d_out, options).split();
    case LayerKind::kMultiHeadAttention:
      break;
  }
  if (layout.out_proj) options.head_dim = head_dim;
  if (head_dim < 1 || layout.key_rows % head_dim != 0) {
    throw FileError(path,
                    fmt::format("the {} rows of the keys do not make heads of head_dim={}", layout.key_rows, head_dim));
  }
  options.num_kv_heads = layout.key_rows / head_dim;
  return MultiHeadAttention<T>(layout.d_in, layout.d_out, options);
}

}  // namespace

template <class T>
void save_layer(const std::string& path, AnyLayer<T>& layer) {
  LayerFacts facts;
  facts.kind = kind_of(layer);
  const std::vector<NamedTensor> tensors = std::visit(
      [&](auto& any) {
        const AttentionConfig& config = any.config();
        facts.num_heads = config.num_heads;
        facts.causal = config.causal;
        facts.dropout = config.dropout;
        facts.context_length = config.context_length;
        facts.seed = any.seed();
        return any.state();
      },
      layer);
  write_safetensors(path, tensors, to_metadata(facts));
}

template <class T>
AnyLayer<T> load_layer(const std::string& path, const LayerFacts& given) {
  const SafetensorsFile file(path);
  const LayerLayout layout = read_layer_layout(file);
  const LayerFacts facts = complete_facts(path, given, facts_from_metadata(path, file.metadata()), layout);
  try {
    AnyLayer<T> layer = make_layer<T>(facts, layout, path);
    std::visit([&](auto& any) { any.load(file.tensors()); }, layer);
    return layer;
  } catch (const std::invalid_argument& error) {
    // Sizes, names and types of the file that do not fit together: say whose they are.
    throw FileError(path, error.what());
  }
}

DType layer_file_dtype(const std::string& path) {
  const SafetensorsFile file(path);
  std::optional<DType> dtype;
  for (const SafetensorsEntry& entry : file.header().entries) {
    if (!entry.name.ends_with(".weight") && !entry.name.ends_with(".bias")) continue;
    if (!dtype) dtype = file.tensor(entry.name).dtype;
    const bool known = dtype == DType::kFloat32 || dtype == DType::kFloat64;
    if (known && entry.type->dtype == dtype) continue;
    throw FileError(path, fmt::format("tensor {} is {}; the weights of a layer are all float32 or all float64",
                                      quote_name(entry.name), entry.type->name));
  }
  if (!dtype) throw FileError(path, "there are no weights");
  return *dtype;
}

template void save_layer(const std::string&, AnyLayer<float>&);
template void save_layer(const std::string&, AnyLayer<double>&);
template AnyLayer<float> load_layer(const std::string&, const LayerFacts&);
template AnyLayer<double> load_layer(const std::string&, const LayerFacts&);

}  // namespace headwise
