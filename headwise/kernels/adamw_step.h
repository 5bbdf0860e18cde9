// SPDX-License-Identifier: Apache-2.0
// One AdamW step of some parameters, and the squares behind a gradient's norm: the same bits on every instruction set.
#ifndef HEADWISE_KERNELS_ADAMW_STEP_H_
#define HEADWISE_KERNELS_ADAMW_STEP_H_

#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// With g = gradient * gradient_scale:
//   first = first * beta1 + g * (1 - beta1)        second = second * beta2 + g * g * (1 - beta2)
//   value = value * keep - step_size * first / (sqrt(second) * second_scale + eps)
template <class A>
struct AdamwStep {
  A* value = nullptr;
  const A* gradient = nullptr;
  A* first = nullptr;
  A* second = nullptr;
  Index count = 0;
  A gradient_scale = 1, beta1 = 0, beta2 = 0, keep = 1, step_size = 0, second_scale = 1, eps = 0;
};

template <class A>
struct AdamwFunctions {
  void (*step)(const AdamwStep<A>&);
  // Sum of the squares, in double over 16 lanes.
  double (*sum_squares)(const A* values, Index count);
};

template <class A>
AdamwFunctions<A> adamw_functions_for(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ADAMW_STEP_H_
