// SPDX-License-Identifier: Apache-2.0
// Attention over keys that come in parts: from a cache on several machines, from a ring, from a file. The parts are
// folded left to right into a carry; the result has the bits of one call over all keys.
//
// A part begins at a key position that is a multiple of 256. Its problem counts positions from there: query_offset (as
// Alignment::kOffset) minus the part's first key, and dropout.position_offset set to it. Sinks, if any, go with the
// first part that a row sees, so give them with every part.
#ifndef HEADWISE_KERNELS_ATTENTION_CARRY_H_
#define HEADWISE_KERNELS_ATTENTION_CARRY_H_

#include "headwise/kernels/attention.h"

namespace headwise {

// A row whose row_sum is 0 has seen no key yet; its other values are then not read.
template <class A>
struct AttentionCarry {
  TensorView<A, 4> context;  // (batch, heads, seq_q, v_head_dim), not yet divided by the sum
  TensorView<A, 3> row_max;  // (batch, heads, seq_q)
  TensorView<A, 3> row_sum;  // (batch, heads, seq_q)
};

// Folds the keys of `problem` into `carry`, in place. Throws as check_attention does ("attention_accumulate: ...").
template <class T>
void attention_accumulate(const AttentionProblem<T>& problem, const AttentionCarry<Accumulated<T>>& carry,
                          const Execution& execution = {});

// Writes context, unrounded_context, logsumexp, row_max and row_sum (those given) of a carry that has seen all its
// keys. dropout: that of the parts. Throws ShapeError ("attention_finish: ...").
template <class T>
void attention_finish(const AttentionCarry<Accumulated<T>>& carry, const DropoutRule& dropout,
                      const AttentionOutputs<T>& outputs);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ATTENTION_CARRY_H_
