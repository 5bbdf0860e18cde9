// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/projection_norm.h"

#include <algorithm>

#include "headwise/kernels/rms_norm_rows.h"
#include "headwise/runtime/run_tasks.h"
#include "headwise/runtime/scratch.h"

namespace headwise {
namespace {

// Tokens whose share of the weight's gradient is one sum; the sums are added in rising order, batch-major. Part of the
// bits.
constexpr Index kGradientTokens = 64;

// Calls body(data of token, token) for the tokens of one tile.
template <class View, class Body>
void for_tokens(const View& rows, Index tile, const Body& body) {
  const Index seq = rows.size(1), tokens = rows.size(0) * seq;
  for (Index token = tile * kGradientTokens; token < std::min(tokens, (tile + 1) * kGradientTokens); ++token) {
    body(rows.data() + token / seq * rows.stride(0) + token % seq * rows.stride(1), token);
  }
}

}  // namespace

template <class T>
ProjectionNorm<T>::ProjectionNorm(Index width, double eps, Gradients gradients) : weight_(Shape<1>{width}), eps_(eps) {
  fill_ones();
  if (gradients == Gradients::kStored) weight_gradient_ = Tensor<T, 1>(Shape<1>{width});
}

template <class T>
void ProjectionNorm<T>::forward(TensorView<T, 3> rows, const Execution& execution) const {
  const Index width = weight_.size(0), tiles = (rows.size(0) * rows.size(1) + kGradientTokens - 1) / kGradientTokens;
  const auto run = rms_norm_functions_for<T>(chosen_isa()).forward;
  run_tasks(execution, tiles, [&](Index tile, int) {
    for_tokens(rows, tile, [&](T* token, Index) {
      run({token, width, rows.size(2) / width, width, weight_.data(), eps_});
    });
  });
}

template <class T>
void ProjectionNorm<T>::backward(TensorView<const T, 3> before, TensorView<T, 3> grad, const Execution& execution) {
  const Index width = weight_.size(0), seq = grad.size(1);
  const Index tiles = (grad.size(0) * seq + kGradientTokens - 1) / kGradientTokens;
  ScratchFrame frame;
  T* sums = frame.take<T>(tiles * width);
  std::fill_n(sums, tiles * width, T{0});
  const auto run = rms_norm_functions_for<T>(chosen_isa()).backward;
  run_tasks(execution, tiles, [&](Index tile, int) {
    for_tokens(grad, tile, [&](T* token, Index n) {
      const T* x = before.data() + n / seq * before.stride(0) + n % seq * before.stride(1);
      run({x, token, width, width, grad.size(2) / width, width, weight_.data(), eps_, sums + tile * width});
    });
  });
  if (!weight_gradient_) return;
  for (Index tile = 0; tile < tiles; ++tile) {
    for (Index i = 0; i < width; ++i) weight_gradient_.data()[i] += sums[tile * width + i];
  }
}

template <class T>
void ProjectionNorm<T>::fill_ones() {
  if (weight_) weight_.fill(T{1});
}

template <class T>
void ProjectionNorm<T>::zero_grad() {
  if (weight_gradient_) weight_gradient_.fill(T{});
}

template <class T>
void ProjectionNorm<T>::append_parameters(const std::string& name, std::vector<Parameter<T>>& out) {
  out.push_back({name + ".weight", {weight_.size(0)}, weight_.data(), weight_gradient_.data(), {"width"}});
}

template class ProjectionNorm<float>;
template class ProjectionNorm<double>;

}  // namespace headwise
