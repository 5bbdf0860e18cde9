// SPDX-License-Identifier: Apache-2.0
// One causal head. Parameters: W_query.weight, W_key.weight, W_value.weight (each d_out, d_in), with qkv_bias also
// .bias.
#ifndef HEADWISE_LAYERS_CAUSAL_SELF_ATTENTION_H_
#define HEADWISE_LAYERS_CAUSAL_SELF_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "headwise/layers/attention_layer.h"

namespace headwise {

template <class T>
class CausalSelfAttention : public AttentionLayer<T> {
 public:
  // x (batch, seq, d_in) -> (batch, seq, d_out). Initial weights as torch.manual_seed(seed) and the book's class.
  CausalSelfAttention(Index d_in, Index d_out, std::optional<Index> context_length = {}, double dropout = 0,
                      bool qkv_bias = false, std::optional<std::uint64_t> seed = {});
};

extern template class CausalSelfAttention<float>;
extern template class CausalSelfAttention<double>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_CAUSAL_SELF_ATTENTION_H_
