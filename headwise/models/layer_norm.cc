// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/layer_norm.h"

#include <algorithm>

#include "headwise/kernels/layer_norm_rows.h"
#include "headwise/models/row_tiles.h"
#include "headwise/runtime/scratch.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

constexpr const char* kWho = "layer norm";
// Rows whose share of the parameters' gradients is one sum; the sums are added in rising order. Part of the bits.
constexpr Index kGradientRows = 64;

template <class View>
void check_dense(const char* argument, const View& view, Index tokens, Index width) {
  check_shape(kWho, argument, view, {{"tokens", tokens}, {"width", width}});
  if (view.stride(1) == 1 && (view.stride(0) == width || tokens <= 1)) return;
  throw ShapeError(std::string(kWho) + ": " + argument + " must be dense");
}

// gradient += sum of the tiles' rows, in rising order. The first row takes the sum.
template <class T>
void add_partial_sums(T* sums, Index tiles, TensorView<T, 1> gradient) {
  const Index width = gradient.size(0);
  for (Index tile = 1; tile < tiles; ++tile) {
    for (Index i = 0; i < width; ++i) sums[i] += sums[tile * width + i];
  }
  for (Index i = 0; i < width; ++i) gradient(i) += sums[i];
}

}  // namespace

template <class T>
LayerNorm<T>::LayerNorm(Index width, double eps, bool bias, Gradients gradients) : weight_(Shape<1>{width}), eps_(eps) {
  weight_.fill(T{1});
  if (bias) bias_ = Tensor<T, 1>(Shape<1>{width});
  if (gradients == Gradients::kNone) return;
  weight_gradient_ = Tensor<T, 1>(Shape<1>{width});
  if (bias) bias_gradient_ = Tensor<T, 1>(Shape<1>{width});
}

template <class T>
void LayerNorm<T>::apply(TensorView<T, 2> x) const {
  const Index width = weight_.size(0);
  check_shape(kWho, "x", x, {{"tokens"}, {"width", width}});
  if (x.stride(1) != 1) {
    Tensor<T, 2> dense(x);
    apply(dense.view());
    return copy_elements(dense.view(), x);
  }
  const auto run = layer_norm_functions_for<T>(chosen_isa()).forward;
  run({x.data(), x.data(), x.stride(0), x.stride(0), x.size(0), width, weight_.data(), bias_.data(), eps_});
}

template <class T>
void LayerNorm<T>::forward(TensorView<const T, 2> x, TensorView<T, 2> y, LayerNormSaved* saved,
                           const Execution& execution) const {
  const Index tokens = x.size(0), width = weight_.size(0);
  check_dense("x", x, tokens, width);
  check_dense("y", y, tokens, width);
  if (saved != nullptr && (!saved->mean || saved->mean.size(0) != tokens)) {
    saved->mean = Tensor<double, 1>(Shape<1>{tokens});
    saved->factor = Tensor<double, 1>(Shape<1>{tokens});
  }
  const auto run = layer_norm_functions_for<T>(chosen_isa()).forward;
  for_row_tiles(tokens, width, execution, [&](Index first, Index last) {
    LayerNormForward<T> call{x.data() + first * width,
                             y.data() + first * width,
                             width,
                             width,
                             last - first,
                             width,
                             weight_.data(),
                             bias_.data(),
                             eps_};
    if (saved != nullptr) {
      call.mean = saved->mean.data() + first;
      call.factor = saved->factor.data() + first;
    }
    run(call);
  });
}

template <class T>
void LayerNorm<T>::backward(TensorView<const T, 2> x, const LayerNormSaved& saved, TensorView<const T, 2> grad_y,
                            TensorView<T, 2> grad_x, const Execution& execution) {
  if (!weight_gradient_) throw StateError("layer norm: backward needs stored gradients");
  const Index tokens = x.size(0), width = weight_.size(0);
  check_dense("x", x, tokens, width);
  check_dense("grad_y", grad_y, tokens, width);
  check_dense("grad_x", grad_x, tokens, width);
  check_shape(kWho, "saved.mean", saved.mean.view(), {{"tokens", tokens}});
  const Index tiles = (tokens + kGradientRows - 1) / kGradientRows;
  if (tiles == 0) return;
  ScratchFrame frame;
  T* weight_sums = frame.take<T>(tiles * width);
  T* bias_sums = bias_ ? frame.take<T>(tiles * width) : nullptr;
  const auto run = layer_norm_functions_for<T>(chosen_isa()).backward;
  run_tasks(execution, tiles, [&](Index tile, int) {
    const Index first = tile * kGradientRows, rows = std::min(kGradientRows, tokens - first), at = first * width;
    run({x.data() + at, grad_y.data() + at, grad_x.data() + at, rows, width, weight_.data(), saved.mean.data() + first,
         saved.factor.data() + first, weight_sums + tile * width,
         bias_sums == nullptr ? nullptr : bias_sums + tile * width});
  });
  add_partial_sums(weight_sums, tiles, weight_gradient_.view());
  if (bias_sums != nullptr) add_partial_sums(bias_sums, tiles, bias_gradient_.view());
}

template <class T>
void LayerNorm<T>::zero_grad() {
  if (weight_gradient_) weight_gradient_.fill(T{});
  if (bias_gradient_) bias_gradient_.fill(T{});
}

template <class T>
void LayerNorm<T>::append_parameters(const std::string& name, std::vector<Parameter<T>>& out) {
  const Index width = weight_.size(0);
  out.push_back({name + ".weight", {width}, weight_.data(), weight_gradient_.data(), {"hidden"}});
  if (bias_) out.push_back({name + ".bias", {width}, bias_.data(), bias_gradient_.data(), {"hidden"}});
}

template class LayerNorm<float>;
template class LayerNorm<double>;

}  // namespace headwise
