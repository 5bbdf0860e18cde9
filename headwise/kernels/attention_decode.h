// SPDX-License-Identifier: Apache-2.0
// Short queries against keys and values that were packed before: a cache's panels.
#ifndef HEADWISE_KERNELS_ATTENTION_DECODE_H_
#define HEADWISE_KERNELS_ATTENTION_DECODE_H_

#include "headwise/kernels/attention.h"
#include "headwise/kernels/packed_store.h"

namespace headwise {

// Attention of problem.inputs.queries against `cache`, on the bodies of the instruction set it was packed for. The
// problem's key and value views give the sizes alone; visibility.kv_lengths says how many keys of each entry exist.
// Same bits as attention_forward on the same keys. Throws as check_attention does ("<who>: ...").
template <class T>
void attention_decode(std::string_view who, const AttentionProblem<T>& problem, const PackedStore<T>& cache, Isa isa,
                      const AttentionOutputs<T>& outputs, const Execution& execution = {});

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ATTENTION_DECODE_H_
