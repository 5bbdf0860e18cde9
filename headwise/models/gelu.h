// SPDX-License-Identifier: Apache-2.0
// The exact GELU: x * (1 + erf(x / sqrt(2))) / 2.
#ifndef HEADWISE_MODELS_GELU_H_
#define HEADWISE_MODELS_GELU_H_

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// x: (tokens, width), overwritten.
template <class T>
void apply_gelu(TensorView<T, 2> x);

extern template void apply_gelu(TensorView<float, 2>);
extern template void apply_gelu(TensorView<double, 2>);

}  // namespace headwise

#endif  // HEADWISE_MODELS_GELU_H_
