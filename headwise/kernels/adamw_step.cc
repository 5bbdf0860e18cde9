// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/adamw_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/adamw_step.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/lane_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

template <class A>
void step_all(const AdamwStep<A>& call) {
  A* HWY_RESTRICT value = call.value;
  A* HWY_RESTRICT first = call.first;
  A* HWY_RESTRICT second = call.second;
  const A* HWY_RESTRICT gradient = call.gradient;
  const AdamwStep<A> c = call;
  const A join1 = A{1} - c.beta1, join2 = A{1} - c.beta2;
  for (Index n = 0; n < c.count; ++n) {
    const A g = gradient[n] * c.gradient_scale;
    first[n] = first[n] * c.beta1 + g * join1;
    second[n] = second[n] * c.beta2 + g * g * join2;
    value[n] = value[n] * c.keep - c.step_size * (first[n] / (std::sqrt(second[n]) * c.second_scale + c.eps));
  }
}

template <class A>
double sum_squares(const A* values, Index count) {
  return lane_sum(count, [values](Index n) {
    const double value = static_cast<double>(values[n]);
    return value * value;
  });
}

void step_f32(const AdamwStep<float>& call) { step_all(call); }
void step_f64(const AdamwStep<double>& call) { step_all(call); }
double sum_squares_f32(const float* values, Index count) { return sum_squares(values, count); }
double sum_squares_f64(const double* values, Index count) { return sum_squares(values, count); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
AdamwFunctions<float> adamw_functions_for(Isa isa) {
  return {HEADWISE_LOOP_FOR_ISA(isa, step_f32), HEADWISE_LOOP_FOR_ISA(isa, sum_squares_f32)};
}
template <>
AdamwFunctions<double> adamw_functions_for(Isa isa) {
  return {HEADWISE_LOOP_FOR_ISA(isa, step_f64), HEADWISE_LOOP_FOR_ISA(isa, sum_squares_f64)};
}

}  // namespace headwise
#endif  // HWY_ONCE
