// SPDX-License-Identifier: Apache-2.0
// RMS norm of some rows and its gradients: y = x * factor * weight, factor = 1 / sqrt(mean(x^2) + eps). Sums in double,
// each result rounded once; the same bits on every instruction set. Source: Zhang and Sennrich (arXiv 1910.07467).
#ifndef HEADWISE_KERNELS_RMS_NORM_ROWS_H_
#define HEADWISE_KERNELS_RMS_NORM_ROWS_H_

#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

template <class A>
struct RmsNormForward {
  A* x = nullptr;  // (rows, width), a row every `stride` elements; overwritten by y
  Index stride = 0, rows = 0, width = 0;
  const A* weight = nullptr;  // (width,)
  double eps = 0;
};

template <class A>
struct RmsNormBackward {
  const A* x = nullptr;  // (rows, width), a row every x_stride elements: before the norm
  A* grad = nullptr;     // (rows, width), a row every grad_stride elements: grad_y, overwritten by grad_x
  Index x_stride = 0, grad_stride = 0, rows = 0, width = 0;
  const A* weight = nullptr;  // (width,)
  double eps = 0;
  A* grad_weight = nullptr;  // (width,), added to row by row
};

template <class A>
struct RmsNormFunctions {
  void (*forward)(const RmsNormForward<A>&);
  void (*backward)(const RmsNormBackward<A>&);
};

template <class A>
RmsNormFunctions<A> rms_norm_functions_for(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_RMS_NORM_ROWS_H_
