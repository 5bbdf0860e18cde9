// SPDX-License-Identifier: Apache-2.0
// The first seed's layer, literally: no output projection, and no mask unless one is asked for. Parameters:
// query_weight.weight, key_weight.weight, value_weight.weight (each d_out, d_in), with use_bias also .bias.
#ifndef HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_LAYER_H_
#define HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_LAYER_H_

#include <cstdint>
#include <optional>

#include "headwise/layers/attention_layer.h"

namespace headwise {

template <class T>
class MultiHeadAttentionLayer : public AttentionLayer<T> {
 public:
  // x (batch, seq, d_in) -> (batch, seq, d_out), head_dim = d_out / num_heads.
  MultiHeadAttentionLayer(Index d_in, Index d_out, std::optional<Index> context_length, double dropout, Index num_heads,
                          bool use_bias = false, bool causal = false, std::optional<std::uint64_t> seed = {});
};

extern template class MultiHeadAttentionLayer<float>;
extern template class MultiHeadAttentionLayer<double>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_LAYER_H_
