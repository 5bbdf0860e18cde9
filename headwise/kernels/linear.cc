// SPDX-License-Identifier: Apache-2.0
// The projection and its gradients are three products.
#include "headwise/kernels/linear.h"

#include <algorithm>

#include "headwise/kernels/canonical.h"
#include "headwise/kernels/product.h"
#include "headwise/runtime/scratch.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

template <class T>
Matrix<T> matrix_of(const TensorView<const T, 2>& view) {
  return {view.data(), view.size(0), view.size(1), view.stride(0), view.stride(1)};
}

template <class T>
Matrix<T> transposed(const TensorView<const T, 2>& view) {
  return {view.data(), view.size(1), view.size(0), view.stride(1), view.stride(0)};
}

template <class T>
Product<T> product_into(const TensorView<T, 2>& out, const Matrix<T>& left, const Matrix<T>& right) {
  Product<T> product;
  product.left = left;
  product.right = right;
  product.out = out.data();
  product.out_row_stride = out.stride(0);
  product.out_column_stride = out.stride(1);
  return product;
}

// grad_bias += column sums, chains of 256 tokens folded left to right.
template <class T>
void add_column_sums(const TensorView<const T, 2>& grad_out, const TensorView<T, 1>& grad_bias) {
  const Index tokens = grad_out.size(0), columns = grad_out.size(1), step = grad_out.stride(1);
  ScratchFrame frame;
  T* total = frame.take<T>(columns);
  T* chain = frame.take<T>(columns);
  std::fill_n(total, columns, T{0});
  for (Index start = 0; start < tokens; start += kLinearBlock) {
    std::fill_n(chain, columns, T{0});
    for (Index t = start; t < std::min(start + kLinearBlock, tokens); ++t) {
      const T* row = grad_out.data() + t * grad_out.stride(0);
      for (Index o = 0; o < columns; ++o) chain[o] = chain[o] + row[o * step];
    }
    for (Index o = 0; o < columns; ++o) total[o] = start == 0 ? chain[o] : total[o] + chain[o];
  }
  for (Index o = 0; o < columns; ++o) grad_bias(o) = grad_bias(o) + total[o];
}

}  // namespace

template <class T>
void linear_forward(TensorView<const T, 2> x, TensorView<const T, 2> weight, TensorView<const T, 1> bias,
                    TensorView<T, 2> out, const Execution& execution) {
  const Index tokens = x.size(0), d_in = weight.size(1), d_out = weight.size(0);
  check_shape("linear", "x", x, {{"tokens"}, {"d_in", d_in}});
  check_shape("linear", "out", out, {{"tokens", tokens}, {"d_out", d_out}});
  if (bias) check_shape("linear", "bias", bias, {{"d_out", d_out}});
  if (execution.cancelled()) throw Cancelled();
  const Isa isa = chosen_isa();
  if (isa == Isa::kCanonical) return canonical::linear_forward(x, weight, bias, out, execution);
  Product<T> product = product_into(out, matrix_of(x), transposed(weight));
  product.bias = bias.data();
  product.bias_stride = bias ? bias.stride(0) : 1;
  run_product(product, execution, isa);
}

template <class T>
void linear_backward_x(TensorView<const T, 2> grad_out, TensorView<const T, 2> weight, TensorView<T, 2> grad_x,
                       const Execution& execution) {
  const Index tokens = grad_out.size(0), d_in = weight.size(1), d_out = weight.size(0);
  check_shape("linear", "grad_out", grad_out, {{"tokens"}, {"d_out", d_out}});
  check_shape("linear", "grad_x", grad_x, {{"tokens", tokens}, {"d_in", d_in}});
  if (execution.cancelled()) throw Cancelled();
  const Isa isa = chosen_isa();
  if (isa == Isa::kCanonical) return canonical::linear_backward_x(grad_out, weight, grad_x, execution);
  run_product(product_into(grad_x, matrix_of(grad_out), matrix_of(weight)), execution, isa);
}

template <class T>
void linear_backward_weight(TensorView<const T, 2> grad_out, TensorView<const T, 2> x, TensorView<T, 2> grad_weight,
                            TensorView<T, 1> grad_bias, const Execution& execution) {
  const Index tokens = x.size(0), d_in = x.size(1), d_out = grad_out.size(1);
  check_shape("linear", "grad_out", grad_out, {{"tokens", tokens}, {"d_out"}});
  check_shape("linear", "grad_weight", grad_weight, {{"d_out", d_out}, {"d_in", d_in}});
  if (grad_bias) check_shape("linear", "grad_bias", grad_bias, {{"d_out", d_out}});
  if (execution.cancelled()) throw Cancelled();
  const Isa isa = chosen_isa();
  if (isa == Isa::kCanonical) {
    return canonical::linear_backward_weight(grad_out, x, grad_weight, grad_bias, execution);
  }
  Product<T> product = product_into(grad_weight, transposed(grad_out), matrix_of(x));
  product.add = true;
  run_product(product, execution, isa);
  if (grad_bias) add_column_sums(grad_out, grad_bias);
}

#define HEADWISE_LINEAR_INSTANCE(T)                                                                                    \
  template HEADWISE_EXPORT void linear_forward(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<const T, 1>, \
                                               TensorView<T, 2>, const Execution&);                                    \
  template HEADWISE_EXPORT void linear_backward_x(TensorView<const T, 2>, TensorView<const T, 2>, TensorView<T, 2>,    \
                                                  const Execution&);                                                   \
  template HEADWISE_EXPORT void linear_backward_weight(TensorView<const T, 2>, TensorView<const T, 2>,                 \
                                                       TensorView<T, 2>, TensorView<T, 1>, const Execution&);
HEADWISE_LINEAR_INSTANCE(float)
HEADWISE_LINEAR_INSTANCE(double)
#undef HEADWISE_LINEAR_INSTANCE

}  // namespace headwise
