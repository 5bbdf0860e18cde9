// SPDX-License-Identifier: Apache-2.0
// One forward call on vectors: cuts it into tiles, runs them, writes what was asked for.
#ifndef HEADWISE_KERNELS_FORWARD_CALL_H_
#define HEADWISE_KERNELS_FORWARD_CALL_H_

#include "headwise/kernels/attention.h"
#include "headwise/kernels/attention_carry.h"
#include "headwise/kernels/packed_store.h"

namespace headwise {

// Runs a checked problem on the bodies of `isa`. With `cached`, keys and values come from there (all groups, blocks
// from 0 on, packed for the same `isa`) and the problem's own key and value views give the sizes alone. With `carry`,
// the keys are folded into it and no output is written.
template <class T>
void run_forward(const AttentionProblem<T>& problem, const AttentionShape& shape, const AttentionOutputs<T>& outputs,
                 const Execution& execution, Isa isa, const PackedStore<T>* cached = nullptr,
                 const AttentionCarry<Accumulated<T>>* carry = nullptr);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_FORWARD_CALL_H_
