// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/rms_norm_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/rms_norm_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/lane_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

template <class A>
HWY_INLINE double factor_of(const A* x, Index width, double eps) {
  const double squares = lane_sum(width, [x](Index i) {
    const auto value = static_cast<double>(x[i]);
    return value * value;
  });
  return 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
}

template <class A>
void forward_rows(const RmsNormForward<A>& call) {
  const A* HWY_RESTRICT weight = call.weight;
  for (Index row = 0; row < call.rows; ++row) {
    A* HWY_RESTRICT x = call.x + row * call.stride;
    const double factor = factor_of<A>(x, call.width, call.eps);
    for (Index i = 0; i < call.width; ++i) {
      x[i] = static_cast<A>(static_cast<double>(x[i]) * factor * static_cast<double>(weight[i]));
    }
  }
}

// With n = x * factor and g = grad_y * weight: grad_x = factor * (g - n * mean(g * n)).
template <class A>
void backward_rows(const RmsNormBackward<A>& call) {
  const Index width = call.width;
  const A* HWY_RESTRICT weight = call.weight;
  A* HWY_RESTRICT grad_weight = call.grad_weight;
  for (Index row = 0; row < call.rows; ++row) {
    const A* HWY_RESTRICT x = call.x + row * call.x_stride;
    A* HWY_RESTRICT grad = call.grad + row * call.grad_stride;
    const double factor = factor_of<A>(x, width, call.eps);
    const auto normal = [=](Index i) { return static_cast<double>(x[i]) * factor; };
    const auto scaled = [=](Index i) { return static_cast<double>(grad[i]) * static_cast<double>(weight[i]); };
    const double mean = lane_sum(width, [=](Index i) { return scaled(i) * normal(i); }) / static_cast<double>(width);
    for (Index i = 0; i < width; ++i) {
      const double n = normal(i);
      grad_weight[i] += static_cast<A>(static_cast<double>(grad[i]) * n);
      grad[i] = static_cast<A>(factor * (scaled(i) - n * mean));
    }
  }
}

void forward_f32(const RmsNormForward<float>& call) { forward_rows(call); }
void forward_f64(const RmsNormForward<double>& call) { forward_rows(call); }
void backward_f32(const RmsNormBackward<float>& call) { backward_rows(call); }
void backward_f64(const RmsNormBackward<double>& call) { backward_rows(call); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
RmsNormFunctions<float> rms_norm_functions_for(Isa isa) {
  return {HEADWISE_LOOP_FOR_ISA(isa, forward_f32), HEADWISE_LOOP_FOR_ISA(isa, backward_f32)};
}
template <>
RmsNormFunctions<double> rms_norm_functions_for(Isa isa) {
  return {HEADWISE_LOOP_FOR_ISA(isa, forward_f64), HEADWISE_LOOP_FOR_ISA(isa, backward_f64)};
}

}  // namespace headwise
#endif  // HWY_ONCE
