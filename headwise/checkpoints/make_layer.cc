// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/make_layer.h"

#include <fmt/format.h>

#include "headwise/io/file_error.h"

namespace headwise {
namespace {

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
  options.query_key_norm = facts.query_key_norm;
  options.rotary = facts.rotary;
  options.window_left = facts.window_left;
  return options;
}

}  // namespace

template <class T>
AnyLayer<T> make_layer(const LayerFacts& facts, const LayerLayout& layout, const std::string& path) {
  const Index heads = *facts.num_heads;
  MultiHeadAttentionOptions options = options_of(facts, layout);
  if (heads < 1 || layout.query_rows % heads != 0) {
    throw FileError(path, fmt::format("the {} rows of the queries do not make {} heads", layout.query_rows, heads));
  }
  const Index head_dim = layout.query_rows / heads;
  const char* beyond = facts.rotary           ? "rotary positions"
                       : facts.window_left    ? "window"
                       : facts.query_key_norm ? "norms of queries and keys"
                                              : nullptr;
  if (beyond != nullptr && *facts.kind != LayerKind::kMultiHeadAttention) {
    throw FileError(path, fmt::format("{} has no {}; MultiHeadAttention has", layer_kind_name(*facts.kind), beyond));
  }
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

template AnyLayer<float> make_layer(const LayerFacts&, const LayerLayout&, const std::string&);
template AnyLayer<double> make_layer(const LayerFacts&, const LayerLayout&, const std::string&);

}  // namespace headwise
