// SPDX-License-Identifier: Apache-2.0
// The program that says which bits: plain loops in the working type, every rounding written out (docs/numerics.md).
// Every fast path equals it bit for bit. It also runs by itself where a machine has no fused multiply-add in vectors.
#ifndef HEADWISE_KERNELS_CANONICAL_H_
#define HEADWISE_KERNELS_CANONICAL_H_

#include <vector>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/attention_carry.h"
#include "headwise/kernels/blocks.h"
#include "headwise/kernels/positions.h"

namespace headwise::canonical {

// As the functions of the same name in attention.h and linear.h, on checked arguments of float or double, on the
// calling thread. The cancel flag is read row by row.
template <class A>
void attention_forward(const AttentionProblem<A>& problem, const AttentionShape& shape,
                       const AttentionOutputs<A>& outputs, const Execution& execution = {});
// Folds the problem's keys into a carry.
template <class A>
void attention_accumulate(const AttentionProblem<A>& problem, const AttentionShape& shape,
                          const AttentionCarry<A>& carry, const Execution& execution = {});
template <class A>
void attention_backward(const AttentionProblem<A>& problem, const AttentionShape& shape,
                        TensorView<const A, 4> grad_context, const AttentionSaved<A>& saved,
                        const AttentionGradients<A>& gradients, const Execution& execution = {});
template <class A>
void linear_forward(TensorView<const A, 2> x, TensorView<const A, 2> weight, TensorView<const A, 1> bias,
                    TensorView<A, 2> out, const Execution& execution = {});
template <class A>
void linear_backward_x(TensorView<const A, 2> grad_out, TensorView<const A, 2> weight, TensorView<A, 2> grad_x,
                       const Execution& execution = {});
template <class A>
void linear_backward_weight(TensorView<const A, 2> grad_out, TensorView<const A, 2> x, TensorView<A, 2> grad_weight,
                            TensorView<A, 1> grad_bias, const Execution& execution = {});

// The scores of one query against the keys of one block. Keys outside [begin, end) are not looked at; a hidden key
// inside has `visible` false, its score is -inf.
template <class A>
struct ScoreBlock {
  Index begin = 0, end = 0;  // absolute keys
  A capped[kKeyBlock];       // index: key - block start; after scale and softcap
  A scores[kKeyBlock];       // after bias and ALiBi
  bool visible[kKeyBlock];
};

// One row of a problem: everything that does not depend on the block.
template <class A>
struct RowContext {
  Index batch = 0, head = 0, row = 0, kv_head = 0, position = 0;
  KeyRange range;
  std::vector<A> scaled_query;
};

template <class A>
RowContext<A> row_context(const AttentionProblem<A>& problem, const AttentionShape& shape, Index batch, Index head,
                          Index row);
template <class A>
void compute_scores(const AttentionProblem<A>& problem, const AttentionShape& shape, const RowContext<A>& row,
                    Index block, ScoreBlock<A>& out);

}  // namespace headwise::canonical

#endif  // HEADWISE_KERNELS_CANONICAL_H_
