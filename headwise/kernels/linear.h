// SPDX-License-Identifier: Apache-2.0
// The projection y = x W^T + b and its three gradients. Weights are (d_out, d_in), as in torch.nn.Linear.
#ifndef HEADWISE_KERNELS_LINEAR_H_
#define HEADWISE_KERNELS_LINEAR_H_

#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// x: (tokens, d_in), weight: (d_out, d_in), bias: (d_out,) or not given -> out: (tokens, d_out), overwritten.
// Throws ShapeError ("linear: ...").
template <class T>
void linear_forward(TensorView<const T, 2> x, TensorView<const T, 2> weight, TensorView<const T, 1> bias,
                    TensorView<T, 2> out, const Execution& execution = {});

// grad_x (tokens, d_in) = grad_out (tokens, d_out) W, overwritten.
template <class T>
void linear_backward_x(TensorView<const T, 2> grad_out, TensorView<const T, 2> weight, TensorView<T, 2> grad_x,
                       const Execution& execution = {});

// grad_weight (d_out, d_in) += grad_out^T x; grad_bias (d_out,), when given, += sum of grad_out over the tokens.
template <class T>
void linear_backward_weight(TensorView<const T, 2> grad_out, TensorView<const T, 2> x, TensorView<T, 2> grad_weight,
                            TensorView<T, 1> grad_bias, const Execution& execution = {});

#define HEADWISE_LINEAR_EXTERN(T)                                                                               \
  extern template void linear_forward(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<const T, 1>,   \
                                      TensorView<T, 2>, const Execution&);                                      \
  extern template void linear_backward_x(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<T, 2>,      \
                                         const Execution&);                                                     \
  extern template void linear_backward_weight(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<T, 2>, \
                                              TensorView<T, 1>, const Execution&);
HEADWISE_LINEAR_EXTERN(float)
HEADWISE_LINEAR_EXTERN(double)
#undef HEADWISE_LINEAR_EXTERN

}  // namespace headwise

#endif  // HEADWISE_KERNELS_LINEAR_H_
