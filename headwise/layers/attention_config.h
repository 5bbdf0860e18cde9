// SPDX-License-Identifier: Apache-2.0
// The sizes of an attention layer and every check of them.
#ifndef HEADWISE_LAYERS_ATTENTION_CONFIG_H_
#define HEADWISE_LAYERS_ATTENTION_CONFIG_H_

#include <optional>
#include <string>
#include <string_view>

#include "headwise/layers/linear.h"
#include "headwise/layers/query_key_norm.h"
#include "headwise/layers/rotary_rule.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct AttentionConfig {
  std::string who = "MultiHeadAttention";  // starts every error text
  Index d_in = 0;
  Index d_out = 0;  // width of the layer's output
  Index num_heads = 1;
  std::optional<Index> num_kv_heads{};    // num_heads when not given
  std::optional<Index> head_dim{};        // d_out / num_heads when not given
  std::optional<Index> context_length{};  // no limit when not given
  double dropout = 0;
  bool causal = false;
  std::optional<QueryKeyNorm> query_key_norm{};  // before positions are turned in
  std::optional<RotaryRule> rotary{};            // turns queries and keys; self-attention only
  std::optional<Index> window_left{};  // a query sees at most so many keys before its own; no limit when not given
  bool query_bias = false, key_bias = false, value_bias = false;
  bool out_proj = true;
  bool out_bias = true;
  Gradients gradients = Gradients::kStored;

  void set_qkv_bias(bool bias) { query_bias = key_bias = value_bias = bias; }
};

// The sizes that follow from a config, all filled in.
struct AttentionSizes {
  Index heads = 0, kv_heads = 0, head_dim = 0;

  Index query_width() const { return heads * head_dim; }
  Index kv_width() const { return kv_heads * head_dim; }
  // Rows of the stacked projection: queries, then keys, then values.
  RowRange query_rows() const { return {0, query_width()}; }
  RowRange key_rows() const { return {query_width(), kv_width()}; }
  RowRange value_rows() const { return {query_width() + kv_width(), kv_width()}; }
  RowRange key_value_rows() const { return {query_width(), 2 * kv_width()}; }
  Index stacked_rows() const { return query_width() + 2 * kv_width(); }
};

// Throws ArgumentError unless 1 <= value <= 2^24: "Encoder: hidden must be at least 1, got 0".
void check_width(std::string_view who, std::string_view name, Index value);

// Throws ShapeError for counts that do not divide ("MultiHeadAttention: d_out=10 is not divisible by num_heads=3;
// nearest valid num_heads: 2, 5"), ArgumentError for counts below 1, a head_dim that an absent output projection cannot
// have, a dropout outside [0, 1), a window below 0, and what check_rotary and check_query_key_norm
// refuse.
AttentionSizes check_config(const AttentionConfig& config);

}  // namespace headwise

#endif  // HEADWISE_LAYERS_ATTENTION_CONFIG_H_
