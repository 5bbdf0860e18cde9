// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/cross_entropy_rows.h"

#include "headwise/kernels/row_statistics.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/cross_entropy_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/lane_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// A NaN among the values may or may not be the result; it makes the sum of the exponentials NaN in any case.
template <class A>
HWY_INLINE A largest_of(const A* values, Index count) {
  A lanes[kSumLanes];
  for (A& lane : lanes) lane = values[0];
  Index n = 0;
  for (; n + kSumLanes <= count; n += kSumLanes) {
    for (int lane = 0; lane < kSumLanes; ++lane) {
      lanes[lane] = lanes[lane] < values[n + lane] ? values[n + lane] : lanes[lane];
    }
  }
  for (; n < count; ++n) lanes[0] = lanes[0] < values[n] ? values[n] : lanes[0];
  A largest = lanes[0];
  for (const A lane : lanes) largest = largest < lane ? lane : largest;
  return largest;
}

template <class A>
void cross_entropy_all(const CrossEntropyRows<A>& call) {
  for (Index row = 0; row < call.rows; ++row) {
    A* logits = call.logits + row * call.vocab;
    const Index target = call.targets[row];
    const A largest = largest_of(logits, call.vocab);
    const double chosen = static_cast<double>(logits[target]) - static_cast<double>(largest);
    for (Index n = 0; n < call.vocab; ++n) logits[n] = lane_exp<A>(logits[n] - largest);
    const double sum = lane_sum(call.vocab, [logits](Index n) { return static_cast<double>(logits[n]); });
    call.losses[row] = canonical_log(sum) - chosen;
    if (!call.gradient) continue;
    const A factor = static_cast<A>(call.grad_scale / sum);
    for (Index n = 0; n < call.vocab; ++n) logits[n] = logits[n] * factor;
    logits[target] = logits[target] - static_cast<A>(call.grad_scale);
  }
}

void cross_entropy_f32(const CrossEntropyRows<float>& call) { cross_entropy_all(call); }
void cross_entropy_f64(const CrossEntropyRows<double>& call) { cross_entropy_all(call); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
CrossEntropyFunction<float> cross_entropy_for(Isa isa) {
  return HEADWISE_LOOP_FOR_ISA(isa, cross_entropy_f32);
}
template <>
CrossEntropyFunction<double> cross_entropy_for(Isa isa) {
  return HEADWISE_LOOP_FOR_ISA(isa, cross_entropy_f64);
}

}  // namespace headwise
#endif  // HWY_ONCE
