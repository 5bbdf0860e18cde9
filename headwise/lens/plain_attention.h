// SPDX-License-Identifier: Apache-2.0
// One attention layer in plain loops and doubles, with every number kept and every step open to a known mistake: what
// explanations and diagnoses are made of. For short inputs; it keeps (heads, seq_q, seq_kv). Not installed.
#ifndef HEADWISE_LENS_PLAIN_ATTENTION_H_
#define HEADWISE_LENS_PLAIN_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "headwise/layers/attention_layer.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// The numbers of a layer, widened exactly.
struct PlainLayer {
  AttentionSizes sizes;
  Index d_in = 0, d_out = 0;
  bool causal = false;
  std::optional<Index> window_left;
  std::optional<RotaryRule> rotary;
  std::optional<QueryKeyNorm> norm;
  Tensor<double, 1> query_norm, key_norm;  // the norms' weights; empty without them
  Tensor<double, 2> stacked;               // (query, then key, then value rows; d_in)
  Tensor<double, 1> stacked_bias;          // empty without one
  Tensor<double, 2> out;                   // (d_out, heads * head_dim); empty without an output projection
  Tensor<double, 1> out_bias;              // empty without one
};

template <class T>
PlainLayer plain_layer(const AttentionLayer<T>& layer);

enum class MaskStep : std::uint8_t {
  kRight,
  kMissing,
  kAfterSoftmax,  // weights are zeroed and not made to sum to 1 again
  kInverted,      // what should be hidden is seen and the other way round; a row that sees nothing is 0
};

// How the layer's numbers are worked on. As it stands: rightly.
struct AttentionRecipe {
  bool straight_split = false;  // (seq, width) read as (heads, seq, head_dim) without a transpose
  bool straight_merge = false;  // (heads, seq, head_dim) read as (seq, width) without a transpose
  std::optional<double> scale;  // 1 / sqrt(head_dim) when not given
  MaskStep mask = MaskStep::kRight;
  bool softmax_over_queries = false;
  bool softmax_twice = false;
  bool second_softmax_sees_all = false;  // the zeros of the mask come back as exp(0)
  Index window_shift = 0;                // added to the window
  bool rows_from_the_start = false;      // of fewer queries than keys, the first stands at position 0
  bool kv_heads_interleaved = false;     // query head h reads kv head h % kv_heads
};

// Of `seq_q` queries, the last tokens of x, on all seq_kv of them.
struct PlainRun {
  Tensor<double, 2> queries;       // (seq_kv, heads * head_dim), normalized and turned where the layer does so
  Tensor<double, 2> keys, values;  // (seq_kv, kv_heads * head_dim)
  Tensor<double, 3> scores;        // (heads, seq_q, seq_kv), scaled, nothing hidden
  Tensor<double, 3> weights;       // (heads, seq_q, seq_kv)
  Tensor<double, 2> merged;        // (seq_q, heads * head_dim)
  Tensor<double, 2> out;           // (seq_q, d_out)
};

// x: (seq_kv, d_in). Throws what check_rotary throws.
PlainRun run_plain(const PlainLayer& layer, TensorView<const double, 2> x, Index seq_q,
                   const AttentionRecipe& recipe = {});

// Whether the rule of the layer shows key `key` to the query at `position`.
bool plain_sees(const PlainLayer& layer, Index position, Index key, Index window_shift = 0);

// y (rows, weight rows) = x weight^T + bias.
Tensor<double, 2> plain_linear(TensorView<const double, 2> x, const Tensor<double, 2>& weight,
                               const Tensor<double, 1>& bias);

extern template PlainLayer plain_layer(const AttentionLayer<float>&);
extern template PlainLayer plain_layer(const AttentionLayer<double>&);

}  // namespace headwise

#endif  // HEADWISE_LENS_PLAIN_ATTENTION_H_
