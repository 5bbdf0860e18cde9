// SPDX-License-Identifier: Apache-2.0
// The GELU over the rows of a feed-forward part. "gelu": x * (1 + erf(x / sqrt(2))) / 2; "gelu_tanh": the approximation
// that GPT-2 has, x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2. The same bits on every machine.
#ifndef HEADWISE_MODELS_GELU_H_
#define HEADWISE_MODELS_GELU_H_

#include <string_view>

#include "headwise/models/activation_name.h"
#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// x: (tokens, width) -> y: the same shape, overwritten; y may be x. Throws ShapeError, and as check_activation does.
template <class T>
void gelu_forward(std::string_view activation, TensorView<const T, 2> x, TensorView<T, 2> y,
                  const Execution& execution = {});

// grad: (tokens, width), multiplied by the derivative at x.
template <class T>
void gelu_backward(std::string_view activation, TensorView<const T, 2> x, TensorView<T, 2> grad,
                   const Execution& execution = {});

#define HEADWISE_GELU_EXTERN(T)                                                                                    \
  extern template void gelu_forward(std::string_view, TensorView<const T, 2>, TensorView<T, 2>, const Execution&); \
  extern template void gelu_backward(std::string_view, TensorView<const T, 2>, TensorView<T, 2>, const Execution&);
HEADWISE_GELU_EXTERN(float)
HEADWISE_GELU_EXTERN(double)
#undef HEADWISE_GELU_EXTERN

}  // namespace headwise

#endif  // HEADWISE_MODELS_GELU_H_
