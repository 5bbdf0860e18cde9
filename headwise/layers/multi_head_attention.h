// SPDX-License-Identifier: Apache-2.0
// The weight-split layer: one projection each for queries, keys and values, cut into heads, merged, projected.
#ifndef HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_H_
#define HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "headwise/layers/attention_layer.h"
#include "headwise/layers/multi_head_attention_wrapper.h"

namespace headwise {

struct MultiHeadAttentionOptions {
  std::optional<Index> context_length{};  // a longer input is an error; no limit when not given
  double dropout = 0;
  Index num_heads = 1;
  bool qkv_bias = false;
  bool causal = true;
  bool out_proj = true;
  bool out_bias = true;
  std::optional<Index> num_kv_heads{};  // num_heads when not given
  std::optional<Index> head_dim{};      // d_out / num_heads when not given; free only with out_proj
  std::string init = "torch_linear";
  std::optional<std::uint64_t> seed{};
  std::optional<RotaryRule> rotary{};            // turns queries and keys by their positions; self-attention only
  std::optional<QueryKeyNorm> query_key_norm{};  // q_norm.weight, k_norm.weight, applied before rotary positions
  std::optional<Index> window_left{};  // a query sees at most so many keys before its own; no limit when not given
};

// Parameters: W_query.weight (heads * head_dim, d_in), W_key.weight and W_value.weight (kv_heads * head_dim, d_in),
// with qkv_bias also .bias; out_proj.weight (d_out, heads * head_dim), out_proj.bias (d_out,); with query_key_norm
// q_norm.weight and k_norm.weight, (head_dim,) each, or where it is over the whole (heads * head_dim,) and
// (kv_heads * head_dim,).
template <class T>
class MultiHeadAttention : public AttentionLayer<T> {
 public:
  MultiHeadAttention(Index d_in, Index d_out, const MultiHeadAttentionOptions& options = {});

  // The same weights as H heads side by side: equal outputs, bit for bit. Throws ArgumentError when query heads share
  // key heads, and for a layer with rotary positions, norms or a window, which a wrapper has not.
  MultiHeadAttentionWrapper<T> split() const;

 private:
  friend class MultiHeadAttentionWrapper<T>;
  explicit MultiHeadAttention(const AttentionLayer<T>& source);
};

extern template class MultiHeadAttention<float>;
extern template class MultiHeadAttention<double>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_MULTI_HEAD_ATTENTION_H_
