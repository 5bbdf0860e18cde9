// SPDX-License-Identifier: Apache-2.0
// H causal heads side by side, their outputs concatenated. The heads are rows of one stacked block, so H heads cost
// what the weight-split layer costs; the outputs are those of H CausalSelfAttention objects, bit for bit.
#ifndef HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_WRAPPER_H_
#define HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_WRAPPER_H_

#include <cstdint>
#include <optional>

#include "headwise/layers/attention_layer.h"
#include "headwise/layers/causal_self_attention.h"

namespace headwise {

template <class T>
class MultiHeadAttention;

struct WrapperOptions {
  std::optional<Index> context_length{};
  double dropout = 0;
  bool qkv_bias = false;
  bool out_proj = false;  // Linear(width, width) with bias over the concatenated heads
  std::optional<std::uint64_t> seed{};
};

// Parameters: heads.{i}.W_query.weight, heads.{i}.W_key.weight, heads.{i}.W_value.weight (each head_dim, d_in), with
// qkv_bias also .bias; with out_proj also out_proj.weight and out_proj.bias.
template <class T>
class MultiHeadAttentionWrapper : public AttentionLayer<T> {
 public:
  // d_out counts one head: the output is (batch, seq, num_heads * d_out).
  static MultiHeadAttentionWrapper with_head_width(Index d_in, Index d_out, Index num_heads,
                                                   const WrapperOptions& options = {});
  // d_out counts all heads: each has d_out / num_heads, the output is (batch, seq, d_out).
  static MultiHeadAttentionWrapper with_total_width(Index d_in, Index d_out, Index num_heads,
                                                    const WrapperOptions& options = {});

  // A copy of one head as a layer of its own. Throws ArgumentError when there is no such head.
  CausalSelfAttention<T> head(Index index) const;
  // The weight-split layer of the same weights: equal outputs, bit for bit.
  MultiHeadAttention<T> fuse() const;

 private:
  friend class MultiHeadAttention<T>;
  MultiHeadAttentionWrapper(const AttentionConfig& config, std::optional<std::uint64_t> seed);
  explicit MultiHeadAttentionWrapper(const AttentionLayer<T>& source);
};

extern template class MultiHeadAttentionWrapper<float>;
extern template class MultiHeadAttentionWrapper<double>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_WRAPPER_H_
