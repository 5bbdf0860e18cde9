// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/layer_norm_rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/layer_norm_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/lane_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

template <class A>
HWY_INLINE void normalize_row(const A* x, A* y, double mean, double factor, const LayerNormForward<A>& call) {
  const A* weight = call.weight;
  if (call.bias == nullptr) {
    for (Index i = 0; i < call.width; ++i) {
      y[i] = static_cast<A>((static_cast<double>(x[i]) - mean) * factor * static_cast<double>(weight[i]));
    }
    return;
  }
  const A* bias = call.bias;
  for (Index i = 0; i < call.width; ++i) {
    const double normal = (static_cast<double>(x[i]) - mean) * factor;
    y[i] = static_cast<A>(normal * static_cast<double>(weight[i]) + static_cast<double>(bias[i]));
  }
}

template <class A>
void forward_rows(const LayerNormForward<A>& call) {
  const double width = static_cast<double>(call.width);
  for (Index row = 0; row < call.rows; ++row) {
    const A* x = call.x + row * call.x_stride;
    const double mean = lane_sum(call.width, [x](Index i) { return static_cast<double>(x[i]); }) / width;
    // Squares of the differences, not mean(x^2) - mean^2, which cancels when the mean is large.
    const double squares = lane_sum(call.width, [x, mean](Index i) {
      const double difference = static_cast<double>(x[i]) - mean;
      return difference * difference;
    });
    const double factor = 1.0 / std::sqrt(squares / width + call.eps);
    normalize_row(x, call.y + row * call.y_stride, mean, factor, call);
    if (call.mean != nullptr) call.mean[row] = mean;
    if (call.factor != nullptr) call.factor[row] = factor;
  }
}

// With n = (x - mean) * factor and g = grad_y * weight: grad_x += factor * (g - mean(g) - n * mean(g * n)).
template <class A>
void backward_rows(const LayerNormBackward<A>& call) {
  const Index width = call.width;
  A* HWY_RESTRICT grad_weight = call.grad_weight;
  std::fill_n(grad_weight, width, A{0});
  if (call.grad_bias != nullptr) std::fill_n(call.grad_bias, width, A{0});
  for (Index row = 0; row < call.rows; ++row) {
    const A* HWY_RESTRICT x = call.x + row * width;
    const A* HWY_RESTRICT grad_y = call.grad_y + row * width;
    const A* HWY_RESTRICT weight = call.weight;
    A* HWY_RESTRICT grad_x = call.grad_x + row * width;
    const double mean = call.mean[row], factor = call.factor[row];
    const auto scaled = [=](Index i) { return static_cast<double>(grad_y[i]) * static_cast<double>(weight[i]); };
    const auto normal = [=](Index i) { return (static_cast<double>(x[i]) - mean) * factor; };
    const double mean_scaled = lane_sum(width, scaled) / static_cast<double>(width);
    const double mean_product =
        lane_sum(width, [=](Index i) { return scaled(i) * normal(i); }) / static_cast<double>(width);
    for (Index i = 0; i < width; ++i) {
      const double n = normal(i);
      grad_x[i] += static_cast<A>(factor * (scaled(i) - mean_scaled - n * mean_product));
      grad_weight[i] += static_cast<A>(static_cast<double>(grad_y[i]) * n);
    }
    if (call.grad_bias == nullptr) continue;
    for (Index i = 0; i < width; ++i) call.grad_bias[i] += grad_y[i];
  }
}

void forward_f32(const LayerNormForward<float>& call) { forward_rows(call); }
void forward_f64(const LayerNormForward<double>& call) { forward_rows(call); }
void backward_f32(const LayerNormBackward<float>& call) { backward_rows(call); }
void backward_f64(const LayerNormBackward<double>& call) { backward_rows(call); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
LayerNormFunctions<float> layer_norm_functions_for(Isa isa) {
  return {HEADWISE_LOOP_FOR_ISA(isa, forward_f32), HEADWISE_LOOP_FOR_ISA(isa, backward_f32)};
}
template <>
LayerNormFunctions<double> layer_norm_functions_for(Isa isa) {
  return {HEADWISE_LOOP_FOR_ISA(isa, forward_f64), HEADWISE_LOOP_FOR_ISA(isa, backward_f64)};
}

}  // namespace headwise
#endif  // HWY_ONCE
