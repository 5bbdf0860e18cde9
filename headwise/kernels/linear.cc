// SPDX-License-Identifier: Apache-2.0
// Plain loops in double, rounded once.
#include "headwise/kernels/linear.h"

#include "headwise/tensor/shape_check.h"

namespace headwise {

template <class T>
void linear_forward(TensorView<const T, 2> x, TensorView<const T, 2> weight, TensorView<const T, 1> bias,
                    TensorView<T, 2> out, const Execution& execution) {
  const Index tokens = x.size(0), d_in = weight.size(1), d_out = weight.size(0);
  check_shape("linear", "x", x, {{"tokens"}, {"d_in", d_in}});
  check_shape("linear", "out", out, {{"tokens", tokens}, {"d_out", d_out}});
  if (bias) check_shape("linear", "bias", bias, {{"d_out", d_out}});
  for (Index t = 0; t < tokens; ++t) {
    if (execution.cancelled()) throw Cancelled();
    for (Index o = 0; o < d_out; ++o) {
      double sum = 0;
      for (Index i = 0; i < d_in; ++i) sum += static_cast<double>(x(t, i)) * static_cast<double>(weight(o, i));
      if (bias) sum += bias(o);
      out(t, o) = static_cast<T>(sum);
    }
  }
}

template <class T>
void linear_backward_x(TensorView<const T, 2> grad_out, TensorView<const T, 2> weight, TensorView<T, 2> grad_x,
                       const Execution& execution) {
  const Index tokens = grad_out.size(0), d_in = weight.size(1), d_out = weight.size(0);
  check_shape("linear", "grad_out", grad_out, {{"tokens"}, {"d_out", d_out}});
  check_shape("linear", "grad_x", grad_x, {{"tokens", tokens}, {"d_in", d_in}});
  for (Index t = 0; t < tokens; ++t) {
    if (execution.cancelled()) throw Cancelled();
    for (Index i = 0; i < d_in; ++i) {
      double sum = 0;
      for (Index o = 0; o < d_out; ++o) sum += static_cast<double>(grad_out(t, o)) * static_cast<double>(weight(o, i));
      grad_x(t, i) = static_cast<T>(sum);
    }
  }
}

template <class T>
void linear_backward_weight(TensorView<const T, 2> grad_out, TensorView<const T, 2> x, TensorView<T, 2> grad_weight,
                            TensorView<T, 1> grad_bias, const Execution& execution) {
  const Index tokens = x.size(0), d_in = x.size(1), d_out = grad_out.size(1);
  check_shape("linear", "grad_out", grad_out, {{"tokens", tokens}, {"d_out"}});
  check_shape("linear", "grad_weight", grad_weight, {{"d_out", d_out}, {"d_in", d_in}});
  if (grad_bias) check_shape("linear", "grad_bias", grad_bias, {{"d_out", d_out}});
  for (Index o = 0; o < d_out; ++o) {
    if (execution.cancelled()) throw Cancelled();
    for (Index i = 0; i < d_in; ++i) {
      double sum = 0;
      for (Index t = 0; t < tokens; ++t) sum += static_cast<double>(grad_out(t, o)) * static_cast<double>(x(t, i));
      grad_weight(o, i) += static_cast<T>(sum);
    }
    if (!grad_bias) continue;
    double sum = 0;
    for (Index t = 0; t < tokens; ++t) sum += static_cast<double>(grad_out(t, o));
    grad_bias(o) += static_cast<T>(sum);
  }
}

#define HEADWISE_LINEAR_INSTANCE(T)                                                                       \
  template void linear_forward(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<const T, 1>,    \
                               TensorView<T, 2>, const Execution&);                                       \
  template void linear_backward_x(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<T, 2>,       \
                                  const Execution&);                                                      \
  template void linear_backward_weight(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<T, 2>,  \
                                       TensorView<T, 1>, const Execution&);
HEADWISE_LINEAR_INSTANCE(float)
HEADWISE_LINEAR_INSTANCE(double)
#undef HEADWISE_LINEAR_INSTANCE

}  // namespace headwise
