// SPDX-License-Identifier: Apache-2.0
// What goes into one call of an attention layer beside x, and what comes out beside the output.
#ifndef HEADWISE_LAYERS_ACTIVATIONS_H_
#define HEADWISE_LAYERS_ACTIVATIONS_H_

#include <cstdint>
#include <optional>

#include "headwise/kernels/attention.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// Dropout of one call, at work only in training.
struct LayerDropout {
  bool training = false;
  std::optional<std::uint64_t> seed{};  // the layer's own seed when not given
  std::uint64_t call = 0;               // count the training forwards here: each value draws another mask
  Index batch_offset = 0;               // where this batch and these heads lie in a larger whole
  Index head_offset = 0;
};

// A causal layer sets visibility.causal itself; of its own window and a given one the narrower counts.
template <class T>
struct ForwardOptions {
  ScoreRule<T> rule;
  Visibility visibility;
  LayerDropout dropout;
};

// Each view that is given is overwritten; none changes the bits of the output.
template <class T>
struct LayerOutputs {
  TensorView<T, 4> queries;    // (batch, heads, seq_q, head_dim), normalized and turned where the layer does so
  TensorView<T, 4> keys;       // (batch, kv_heads, seq_kv, head_dim), likewise
  TensorView<T, 4> values;     // (batch, kv_heads, seq_kv, head_dim)
  TensorView<T, 4> context;    // (batch, heads, seq_q, head_dim), before the heads are merged
  TensorView<T, 3> logsumexp;  // (batch, heads, seq_q)
  TensorView<T, 4> weights;    // (batch, heads, seq_q, seq_kv)
  bool weights_after_dropout = false;
  AttentionStatistics<T> statistics;
};

// All that backward needs of a forward. Held by the caller; a second forward into the same object reuses its memory
// where the sizes agree. The mask, bias, lengths and offsets of the options are borrowed: they must live, unchanged,
// until backward.
template <class T>
struct Activations {
  ForwardOptions<T> options;
  DropoutRule dropout;
  Tensor<T, 3> x;            // (batch, seq_q, d_in)
  Tensor<T, 3> keys_values;  // (batch, seq_kv, d_in); empty in self-attention
  Tensor<T, 3> projected;    // (batch, seq_q, stacked rows), turned; with keys_values (batch, seq_q, heads * head_dim)
  Tensor<T, 3> projected_keys_values;  // (batch, seq_kv, 2 * kv_heads * head_dim); empty in self-attention
  // With a norm of queries and keys, both before it: (batch, seq_q, heads * head_dim), (batch, seq_kv, kv_heads *
  // head_dim); else empty.
  Tensor<T, 3> queries_before_norm, keys_before_norm;
  Tensor<T, 3> context;           // (batch, seq_q, heads * head_dim), heads merged
  Tensor<T, 3> row_max, row_sum;  // (batch, heads, seq_q)
  bool complete = false;          // a forward into this object has come to its end

  explicit operator bool() const { return complete; }
};

// Gradients of the score rule's own inputs. Each view that is given is overwritten.
template <class T>
struct ScoreGradients {
  TensorView<T, 4> bias;          // the bias's own shape
  TensorView<T, 1> alibi_slopes;  // (heads,)
  TensorView<T, 1> sinks;         // (heads,)
};

}  // namespace headwise

#endif  // HEADWISE_LAYERS_ACTIVATIONS_H_
