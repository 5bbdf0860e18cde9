// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/causal_self_attention.h"

namespace headwise {
namespace {

AttentionConfig single_head(Index d_in, Index d_out, std::optional<Index> context_length, double dropout,
                            bool qkv_bias) {
  AttentionConfig config;
  config.who = "CausalSelfAttention";
  config.d_in = d_in;
  config.d_out = d_out;
  config.context_length = context_length;
  config.dropout = dropout;
  config.causal = true;
  config.set_qkv_bias(qkv_bias);
  config.out_proj = false;
  return config;
}

}  // namespace

template <class T>
CausalSelfAttention<T>::CausalSelfAttention(Index d_in, Index d_out, std::optional<Index> context_length,
                                            double dropout, bool qkv_bias, std::optional<std::uint64_t> seed)
    : AttentionLayer<T>(single_head(d_in, d_out, context_length, dropout, qkv_bias), {}) {
  this->initialize(Initialization::kTorchLinear, seed_or_fresh(seed));
}

template class CausalSelfAttention<float>;
template class CausalSelfAttention<double>;

}  // namespace headwise
