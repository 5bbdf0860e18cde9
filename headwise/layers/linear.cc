// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/linear.h"

#include "headwise/kernels/linear.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// A view of some rows of a vector that may be absent.
template <class T>
TensorView<T, 1> rows_of(TensorView<T, 1> vector, RowRange rows) {
  return vector ? vector.slice(0, rows.first, rows.first + rows.count) : vector;
}

template <class T>
TensorView<T, 2> rows_of(TensorView<T, 2> matrix, RowRange rows) {
  return matrix.slice(0, rows.first, rows.first + rows.count);
}

}  // namespace

template <class T>
Linear<T>::Linear(Index d_in, Index d_out, bool bias, Gradients gradients) : weight_(Shape<2>{d_out, d_in}) {
  if (bias) bias_ = Tensor<T, 1>(Shape<1>{d_out});
  if (gradients == Gradients::kNone) return;
  weight_gradient_ = Tensor<T, 2>(weight_.shape());
  if (bias) bias_gradient_ = Tensor<T, 1>(bias_.shape());
}

template <class T>
void Linear<T>::forward(RowRange rows, TensorView<const T, 2> x, TensorView<T, 2> out,
                        const Execution& execution) const {
  linear_forward<T>(x, rows_of(weight_.view(), rows), rows_of(bias_.view(), rows), out, execution);
}

template <class T>
void Linear<T>::backward_x(RowRange rows, TensorView<const T, 2> grad_out, TensorView<T, 2> grad_x,
                           const Execution& execution) const {
  linear_backward_x<T>(grad_out, rows_of(weight_.view(), rows), grad_x, execution);
}

template <class T>
void Linear<T>::backward_weight(RowRange rows, TensorView<const T, 2> grad_out, TensorView<const T, 2> x,
                                const Execution& execution) {
  if (!weight_gradient_) throw StateError("linear: backward_weight needs stored gradients");
  linear_backward_weight<T>(grad_out, x, rows_of(weight_gradient_.view(), rows), rows_of(bias_gradient_.view(), rows),
                            execution);
}

template <class T>
void Linear<T>::zero_grad() {
  if (weight_gradient_) weight_gradient_.fill(T{});
  if (bias_gradient_) bias_gradient_.fill(T{});
}

template <class T>
std::span<T> Linear<T>::weight_values(RowRange rows) {
  return {weight_.data() + rows.first * d_in(), static_cast<std::size_t>(rows.count * d_in())};
}

template <class T>
std::span<T> Linear<T>::bias_values(RowRange rows) {
  if (!bias_) return {};
  return {bias_.data() + rows.first, static_cast<std::size_t>(rows.count)};
}

template <class T>
void Linear<T>::append_parameters(const std::string& name, RowRange rows, bool with_bias,
                                  std::vector<Parameter<T>>& out) {
  T* weight_gradient = weight_gradient_ ? weight_gradient_.data() + rows.first * d_in() : nullptr;
  out.push_back(
      {name + ".weight", {rows.count, d_in()}, weight_values(rows).data(), weight_gradient, {"d_out", "d_in"}});
  if (!with_bias || !bias_) return;
  T* bias_gradient = bias_gradient_ ? bias_gradient_.data() + rows.first : nullptr;
  out.push_back({name + ".bias", {rows.count}, bias_values(rows).data(), bias_gradient, {"d_out"}});
}

template class Linear<float>;
template class Linear<double>;

}  // namespace headwise
