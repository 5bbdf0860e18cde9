// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/multi_head_attention.h"

#include <fmt/format.h>

#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr const char* kWho = "MultiHeadAttention";

AttentionConfig weight_split(Index d_in, Index d_out, const MultiHeadAttentionOptions& options) {
  AttentionConfig config;
  config.who = kWho;
  config.d_in = d_in;
  config.d_out = d_out;
  config.num_heads = options.num_heads;
  config.num_kv_heads = options.num_kv_heads;
  config.head_dim = options.head_dim;
  config.context_length = options.context_length;
  config.dropout = options.dropout;
  config.causal = options.causal;
  config.set_qkv_bias(options.qkv_bias);
  config.out_proj = options.out_proj;
  config.out_bias = options.out_bias;
  config.rotary = options.rotary;
  config.query_key_norm = options.query_key_norm;
  config.window_left = options.window_left;
  return config;
}

}  // namespace

template <class T>
MultiHeadAttention<T>::MultiHeadAttention(Index d_in, Index d_out, const MultiHeadAttentionOptions& options)
    : AttentionLayer<T>(weight_split(d_in, d_out, options), {}) {
  this->initialize(initialization_by_name(kWho, options.init), seed_or_fresh(options.seed));
}

template <class T>
MultiHeadAttention<T>::MultiHeadAttention(const AttentionLayer<T>& source)
    : AttentionLayer<T>(source, kWho, ProjectionNames{}) {}

template <class T>
MultiHeadAttentionWrapper<T> MultiHeadAttention<T>::split() const {
  const AttentionSizes& sizes = this->sizes();
  if (sizes.kv_heads != sizes.heads) {
    throw ArgumentError(fmt::format("{}.split: needs num_kv_heads == num_heads, got num_kv_heads={} and num_heads={}",
                                    kWho, sizes.kv_heads, sizes.heads));
  }
  const AttentionConfig& config = this->config();
  if (config.rotary) throw ArgumentError(fmt::format("{}.split: a wrapper has no rotary positions", kWho));
  if (config.query_key_norm) throw ArgumentError(fmt::format("{}.split: a wrapper has no norms", kWho));
  if (config.window_left) throw ArgumentError(fmt::format("{}.split: a wrapper has no window", kWho));
  return MultiHeadAttentionWrapper<T>(*this);
}

template class MultiHeadAttention<float>;
template class MultiHeadAttention<double>;

}  // namespace headwise
