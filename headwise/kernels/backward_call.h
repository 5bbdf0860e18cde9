// SPDX-License-Identifier: Apache-2.0
// One backward call on vectors.
#ifndef HEADWISE_KERNELS_BACKWARD_CALL_H_
#define HEADWISE_KERNELS_BACKWARD_CALL_H_

#include "headwise/kernels/attention.h"
#include "headwise/runtime/isa.h"

namespace headwise {

// Runs a checked problem on the bodies of `isa`. Every gradient that is given is overwritten.
template <class T>
void run_backward(const AttentionProblem<T>& problem, const AttentionShape& shape,
                  const TensorView<const T, 4>& grad_context, const AttentionSaved<T>& saved,
                  const AttentionGradients<T>& gradients, const Execution& execution, Isa isa);

// The gradient of the bias alone (gradients.bias), in a pass of its own over scores and weights' gradients: sums over
// broadcast axes run in double, in the order (batch, kv head, key block, head, query, key).
template <class T>
void run_bias_gradient(const AttentionProblem<T>& problem, const AttentionShape& shape,
                       const TensorView<const T, 4>& grad_context, const AttentionSaved<T>& saved,
                       const AttentionGradients<T>& gradients, const Execution& execution, Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_BACKWARD_CALL_H_
