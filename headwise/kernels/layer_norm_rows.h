// SPDX-License-Identifier: Apache-2.0
// Layer norm of some rows and its gradients: y = (x - mean) * factor * weight + bias, factor = 1 / sqrt(variance +
// eps). Sums and differences in double, each result rounded once; the same bits on every instruction set.
#ifndef HEADWISE_KERNELS_LAYER_NORM_ROWS_H_
#define HEADWISE_KERNELS_LAYER_NORM_ROWS_H_

#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

template <class A>
struct LayerNormForward {
  const A* x = nullptr;  // (rows, width), a row every x_stride elements
  A* y = nullptr;        // the same shape, a row every y_stride elements; may be x
  Index x_stride = 0, y_stride = 0, rows = 0, width = 0;
  const A* weight = nullptr;  // (width,)
  const A* bias = nullptr;    // (width,), or null
  double eps = 0;
  double* mean = nullptr;    // (rows,), written; or null
  double* factor = nullptr;  // (rows,), written; or null
};

// All dense.
template <class A>
struct LayerNormBackward {
  const A* x = nullptr;       // (rows, width)
  const A* grad_y = nullptr;  // (rows, width)
  A* grad_x = nullptr;        // (rows, width), added to
  Index rows = 0, width = 0;
  const A* weight = nullptr;       // (width,)
  const double* mean = nullptr;    // (rows,)
  const double* factor = nullptr;  // (rows,)
  A* grad_weight = nullptr;        // (width,), the sum over these rows, overwritten
  A* grad_bias = nullptr;          // (width,), the same; or null
};

template <class A>
struct LayerNormFunctions {
  void (*forward)(const LayerNormForward<A>&);
  void (*backward)(const LayerNormBackward<A>&);
};

template <class A>
LayerNormFunctions<A> layer_norm_functions_for(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_LAYER_NORM_ROWS_H_
