// SPDX-License-Identifier: Apache-2.0
// Multi-head attention on views: weights = softmax(softcap(scale * q k^T) + bias, masked) and
// context = dropout(weights) v.
//
// Axes: batch, heads, kv_heads (heads is a multiple of it; query head h reads kv head h / (heads / kv_heads)), seq_q,
// seq_kv, head_dim, v_head_dim. Views may have any strides, zero included. T is float, double, float16 or bfloat16; the
// last two are storage only: widened exactly, computed in float, rounded once. Accumulated<T> is float or double.
#ifndef HEADWISE_KERNELS_ATTENTION_H_
#define HEADWISE_KERNELS_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "headwise/runtime/execution.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct AttentionShape {
  Index batch = 0, heads = 0, kv_heads = 0, seq_q = 0, seq_kv = 0, head_dim = 0, v_head_dim = 0;
};

template <class T>
struct AttentionInputs {
  TensorView<const T, 4> queries;  // (batch, heads, seq_q, head_dim)
  TensorView<const T, 4> keys;     // (batch, kv_heads, seq_kv, head_dim)
  TensorView<const T, 4> values;   // (batch, kv_heads, seq_kv, v_head_dim)
};

// How a score is formed from a query and a key.
template <class T>
struct ScoreRule {
  std::optional<double> scale;    // 1 / sqrt(head_dim) when not given
  std::optional<double> softcap;  // score -> softcap * tanh(score / softcap); > 0
  TensorView<const T, 4> bias;    // (batch|1, heads|1, seq_q|1, seq_kv|1), added after the softcap; -inf hides the key
  TensorView<const Accumulated<T>, 1> alibi_slopes;  // (heads,): adds -slope * |position - key|
  TensorView<const Accumulated<T>, 1> sinks;         // (heads,): one more score per row, with no value behind it
};

// Where query row i stands: at position i + offset, beside key j at position j.
enum class Alignment : std::uint8_t {
  kSelf,        // offset 0; needs seq_q == seq_kv as soon as a position is asked for
  kOffset,      // the given query_offset
  kUpperLeft,   // offset 0
  kLowerRight,  // offset = number of keys of that batch entry - seq_q
};

// Which keys a query sees: every rule that is given must allow the key.
struct Visibility {
  bool causal = false;  // key <= position
  Alignment alignment = Alignment::kSelf;
  std::span<const Index> query_offset;  // kOffset: one for all, or (batch,), in -2^62..2^62
  Index window_left = -1;               // position - key <= window_left; -1: unlimited
  Index window_right = -1;              // key - position <= window_right; -1: unlimited
  std::span<const Index> kv_lengths;    // (batch,): keys from there on do not exist; empty: all exist
  TensorView<const bool, 4> mask;       // (batch|1, heads|1, seq_q|1, seq_kv|1), true = attend
};

// Which weights are dropped: a pure function of seed, call and absolute coordinates.
struct DropoutRule {
  double probability = 0;  // in [0, 1)
  std::uint64_t seed = 0;
  std::uint64_t call = 0;  // a layer counts its training forwards here
  Index batch_offset = 0;
  Index head_offset = 0;
  Index position_offset = 0;  // added to query positions and keys alike: where a slice of the keys begins; n * 256
};

template <class T>
struct AttentionProblem {
  AttentionInputs<T> inputs;
  ScoreRule<T> rule;
  Visibility visibility;
  DropoutRule dropout;
};

// Each view that is given is overwritten. All describe the weights before dropout; a row that sees no key is 0, and -1
// in top_keys. A is Accumulated<T> of the call.
template <class A>
struct AttentionStatistics {
  TensorView<A, 3> entropy;     // (batch, heads, seq_q), nats
  TensorView<A, 3> max_weight;  // (batch, heads, seq_q)
  // (batch, heads, seq_q, k): keys by falling weight, ties by rising key, then -1
  TensorView<std::int64_t, 4> top_keys;
  TensorView<A, 3> distance;  // (batch, heads, seq_q): mean of |position - key|
  TensorView<A, 3> self;      // (batch, heads, seq_q): weight on key == position
  TensorView<A, 3> previous;  // (batch, heads, seq_q): weight on key == position - 1
  TensorView<A, 3> next;      // (batch, heads, seq_q): weight on key == position + 1
  TensorView<A, 3> first;     // (batch, heads, seq_q): weight on key 0
  TensorView<A, 3> received;  // (batch, heads, seq_kv): sum over the queries
};

// Each view that is given is overwritten; none changes the bits of another.
template <class T>
struct AttentionOutputs {
  TensorView<T, 4> context;                 // (batch, heads, seq_q, v_head_dim); required
  TensorView<Accumulated<T>, 3> logsumexp;  // (batch, heads, seq_q), sinks included; -inf for a row that sees no key
  TensorView<Accumulated<T>, 3> row_max;    // (batch, heads, seq_q), sinks included; -inf for a row that sees no key
  // (batch, heads, seq_q), sum of exp(score - row_max); 0 for a row that sees no key
  TensorView<Accumulated<T>, 3> row_sum;
  TensorView<T, 4> weights;  // (batch, heads, seq_q, seq_kv)
  bool weights_after_dropout = false;
  AttentionStatistics<Accumulated<T>> statistics;
  // (batch, heads, seq_q, v_head_dim): the context before it is rounded to T; what backward needs for 16-bit T
  TensorView<Accumulated<T>, 4> unrounded_context = {};
};

// What backward needs of a forward. For float and double, the context and the unrounded context are the same numbers.
template <class T>
struct AttentionSaved {
  TensorView<const Accumulated<T>, 4> context;  // (batch, heads, seq_q, v_head_dim), the unrounded one
  TensorView<const Accumulated<T>, 3> row_max;  // (batch, heads, seq_q)
  TensorView<const Accumulated<T>, 3> row_sum;  // (batch, heads, seq_q)
};

// Each view that is given is overwritten.
template <class T>
struct AttentionGradients {
  TensorView<T, 4> queries;                    // (batch, heads, seq_q, head_dim)
  TensorView<T, 4> keys;                       // (batch, kv_heads, seq_kv, head_dim)
  TensorView<T, 4> values;                     // (batch, kv_heads, seq_kv, v_head_dim)
  TensorView<T, 4> bias;                       // the bias's own shape: sums over its axes of length 1
  TensorView<Accumulated<T>, 1> alibi_slopes;  // (heads,)
  TensorView<Accumulated<T>, 1> sinks;         // (heads,)
};

// Checks every argument and gives the sizes. Throws ShapeError or ArgumentError whose text starts with `who`.
template <class T>
AttentionShape check_attention(std::string_view who, const AttentionProblem<T>& problem);

// Computes context and every other output that is given. Throws as check_attention does ("attention: ...").
template <class T>
void attention_forward(const AttentionProblem<T>& problem, const AttentionOutputs<T>& outputs,
                       const Execution& execution = {});

// Gradients of sum(grad_context * context). grad_context: (batch, heads, seq_q, v_head_dim). The problem and `saved`
// must be those of the forward. Throws as check_attention does ("attention_backward: ...").
template <class T>
void attention_backward(const AttentionProblem<T>& problem, TensorView<const T, 4> grad_context,
                        const AttentionSaved<T>& saved, const AttentionGradients<T>& gradients,
                        const Execution& execution = {});

#define HEADWISE_ATTENTION_EXTERN(T)                                                                                \
  extern template AttentionShape check_attention(std::string_view, const AttentionProblem<T>&);                     \
  extern template void attention_forward(const AttentionProblem<T>&, const AttentionOutputs<T>&, const Execution&); \
  extern template void attention_backward(const AttentionProblem<T>&, TensorView<const T, 4>,                       \
                                          const AttentionSaved<T>&, const AttentionGradients<T>&, const Execution&);
HEADWISE_ATTENTION_EXTERN(float)
HEADWISE_ATTENTION_EXTERN(double)
HEADWISE_ATTENTION_EXTERN(float16)
HEADWISE_ATTENTION_EXTERN(bfloat16)
#undef HEADWISE_ATTENTION_EXTERN

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ATTENTION_H_
