// SPDX-License-Identifier: Apache-2.0
// The projection of the canonical program: chains of at most 256 terms, folded left to right, bias last.
#include <algorithm>
#include <cmath>

#include "headwise/kernels/canonical.h"

namespace headwise::canonical {
namespace {

// sum over n in [0, count) of left(n) * right(n).
template <class A, class Left, class Right>
A blocked_sum(Index count, const Left& left, const Right& right) {
  A total = 0;
  for (Index start = 0; start < count; start += kLinearBlock) {
    A chain = 0;
    for (Index n = start; n < std::min(start + kLinearBlock, count); ++n) chain = std::fma(left(n), right(n), chain);
    total = start == 0 ? chain : total + chain;
  }
  return total;
}

}  // namespace

template <class A>
void linear_forward(TensorView<const A, 2> x, TensorView<const A, 2> weight, TensorView<const A, 1> bias,
                    TensorView<A, 2> out, const Execution& execution) {
  for (Index t = 0; t < x.size(0); ++t) {
    if (execution.cancelled()) throw Cancelled();
    for (Index o = 0; o < weight.size(0); ++o) {
      const A sum = blocked_sum<A>(
          weight.size(1), [&](Index i) { return x(t, i); }, [&](Index i) { return weight(o, i); });
      out(t, o) = bias ? sum + bias(o) : sum;
    }
  }
}

template <class A>
void linear_backward_x(TensorView<const A, 2> grad_out, TensorView<const A, 2> weight, TensorView<A, 2> grad_x,
                       const Execution& execution) {
  for (Index t = 0; t < grad_out.size(0); ++t) {
    if (execution.cancelled()) throw Cancelled();
    for (Index i = 0; i < weight.size(1); ++i) {
      grad_x(t, i) = blocked_sum<A>(
          weight.size(0), [&](Index o) { return grad_out(t, o); }, [&](Index o) { return weight(o, i); });
    }
  }
}

template <class A>
void linear_backward_weight(TensorView<const A, 2> grad_out, TensorView<const A, 2> x, TensorView<A, 2> grad_weight,
                            TensorView<A, 1> grad_bias, const Execution& execution) {
  for (Index o = 0; o < grad_out.size(1); ++o) {
    if (execution.cancelled()) throw Cancelled();
    for (Index i = 0; i < x.size(1); ++i) {
      grad_weight(o, i) =
          grad_weight(o, i) + blocked_sum<A>(
                                  x.size(0), [&](Index t) { return grad_out(t, o); }, [&](Index t) { return x(t, i); });
    }
    if (!grad_bias) continue;
    grad_bias(o) = grad_bias(o) + blocked_sum<A>(
                                      x.size(0), [&](Index t) { return grad_out(t, o); }, [](Index) { return A{1}; });
  }
}

#define HEADWISE_CANONICAL_LINEAR(A)                                                                                   \
  template void linear_forward(TensorView<const A, 2>, TensorView<const A, 2>, TensorView<const A, 1>,                 \
                               TensorView<A, 2>, const Execution&);                                                    \
  template void linear_backward_x(TensorView<const A, 2>, TensorView<const A, 2>, TensorView<A, 2>, const Execution&); \
  template void linear_backward_weight(TensorView<const A, 2>, TensorView<const A, 2>, TensorView<A, 2>,               \
                                       TensorView<A, 1>, const Execution&);
HEADWISE_CANONICAL_LINEAR(float)
HEADWISE_CANONICAL_LINEAR(double)
#undef HEADWISE_CANONICAL_LINEAR

}  // namespace headwise::canonical
