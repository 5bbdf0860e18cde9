// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/multi_head_attention_layer.h"

namespace headwise {
namespace {

AttentionConfig seed_layer(Index d_in, Index d_out, std::optional<Index> context_length, double dropout,
                           Index num_heads, bool use_bias, bool causal) {
  AttentionConfig config;
  config.who = "MultiHeadAttentionLayer";
  config.d_in = d_in;
  config.d_out = d_out;
  config.num_heads = num_heads;
  config.context_length = context_length;
  config.dropout = dropout;
  config.causal = causal;
  config.set_qkv_bias(use_bias);
  config.out_proj = false;
  return config;
}

}  // namespace

template <class T>
MultiHeadAttentionLayer<T>::MultiHeadAttentionLayer(Index d_in, Index d_out, std::optional<Index> context_length,
                                                    double dropout, Index num_heads, bool use_bias, bool causal,
                                                    std::optional<std::uint64_t> seed)
    : AttentionLayer<T>(seed_layer(d_in, d_out, context_length, dropout, num_heads, use_bias, causal),
                        {"query_weight", "key_weight", "value_weight"}) {
  this->initialize(Initialization::kTorchLinear, seed_or_fresh(seed));
}

template class MultiHeadAttentionLayer<float>;
template class MultiHeadAttentionLayer<double>;

}  // namespace headwise
