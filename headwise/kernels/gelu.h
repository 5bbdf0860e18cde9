// SPDX-License-Identifier: Apache-2.0
// The GELU and its derivative, element by element: the same bits on every instruction set.
#ifndef HEADWISE_KERNELS_GELU_H_
#define HEADWISE_KERNELS_GELU_H_

#include <cstdint>

#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

enum class GeluForm : std::uint8_t {
  kExact,  // x * Phi(x), Phi the normal distribution
  kTanh,   // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2, as GPT-2 has it
};

template <class A>
struct GeluFunctions {
  // y[n] = gelu(x[n]); y may be x.
  void (*forward)(const A* x, Index count, A* y);
  // grad[n] = grad[n] * gelu'(x[n]).
  void (*backward)(const A* x, Index count, A* grad);
};

template <class A>
GeluFunctions<A> gelu_functions_for(GeluForm form, Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_GELU_H_
