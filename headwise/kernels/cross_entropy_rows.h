// SPDX-License-Identifier: Apache-2.0
// -log softmax(logits)[target] of some rows, and its gradient in the logits' own place. The same bits on every
// instruction set.
#ifndef HEADWISE_KERNELS_CROSS_ENTROPY_ROWS_H_
#define HEADWISE_KERNELS_CROSS_ENTROPY_ROWS_H_

#include <cstdint>

#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

template <class A>
struct CrossEntropyRows {
  A* logits = nullptr;                    // (rows, vocab), dense
  const std::int64_t* targets = nullptr;  // (rows,), each in 0..vocab - 1
  Index rows = 0, vocab = 0;
  double* losses = nullptr;  // (rows,), overwritten; NaN where a logit is
  // The logits become the gradient of grad_scale * loss; not given, their values are spent.
  bool gradient = false;
  double grad_scale = 1;
};

template <class A>
using CrossEntropyFunction = void (*)(const CrossEntropyRows<A>&);
template <class A>
CrossEntropyFunction<A> cross_entropy_for(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_CROSS_ENTROPY_ROWS_H_
