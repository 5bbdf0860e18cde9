// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/attention_decode.h"

#include "headwise/kernels/forward_call.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {

template <class T>
void attention_decode(const AttentionProblem<T>& problem, const PackedStore<T>& cache, Isa isa,
                      const AttentionOutputs<T>& outputs, const Execution& execution) {
  const AttentionShape shape = check_attention("attention_decode", problem);
  check_shape(
      "attention_decode", "context", outputs.context,
      {{"batch", shape.batch}, {"heads", shape.heads}, {"seq_q", shape.seq_q}, {"v_head_dim", shape.v_head_dim}});
  if (execution.cancelled()) throw Cancelled();
  run_forward(problem, shape, outputs, execution, isa, &cache);
}

#define HEADWISE_DECODE(T)                                                                                           \
  template void attention_decode(const AttentionProblem<T>&, const PackedStore<T>&, Isa, const AttentionOutputs<T>&, \
                                 const Execution&);
HEADWISE_DECODE(float)
HEADWISE_DECODE(double)
HEADWISE_DECODE(float16)
HEADWISE_DECODE(bfloat16)
#undef HEADWISE_DECODE

}  // namespace headwise
