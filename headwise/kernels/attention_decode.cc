// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/attention_decode.h"

#include "headwise/kernels/attention_check.h"
#include "headwise/kernels/forward_call.h"

namespace headwise {

template <class T>
void attention_decode(std::string_view who, const AttentionProblem<T>& problem, const PackedStore<T>& cache, Isa isa,
                      const AttentionOutputs<T>& outputs, const Execution& execution) {
  const AttentionShape shape = check_attention(who, problem);
  check_attention_outputs(who, shape, outputs);
  if (execution.cancelled()) throw Cancelled();
  run_forward(problem, shape, outputs, execution, isa, &cache);
}

#define HEADWISE_DECODE(T)                                                                                 \
  template void attention_decode(std::string_view, const AttentionProblem<T>&, const PackedStore<T>&, Isa, \
                                 const AttentionOutputs<T>&, const Execution&);
HEADWISE_DECODE(float)
HEADWISE_DECODE(double)
HEADWISE_DECODE(float16)
HEADWISE_DECODE(bfloat16)
#undef HEADWISE_DECODE

}  // namespace headwise
