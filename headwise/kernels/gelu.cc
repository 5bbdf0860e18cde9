// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/gelu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/gelu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/lane_math-inl.h"

#ifndef HEADWISE_KERNELS_GELU_TAIL_
#define HEADWISE_KERNELS_GELU_TAIL_
namespace headwise {

// Phi(-a) = exp(-a^2 / 2) R(t) / (a + c), t = (a - c) / (a + c), a >= 0. R: Chebyshev interpolation at 60 digits up to
// the a whose exp underflows; relative error 1.2e-8 and 1.2e-17.
template <class A>
struct NormalTail;

template <>
struct NormalTail<float> {
  static constexpr float kShift = 4, kLargest = 16;
  static constexpr int kDegree = 9;
  static constexpr float kCoefficient[] = {0x1.82b4bcp-1F,  -0x1.373e3ap-1F, 0x1.8c6d9p-2F,   -0x1.7dff5ap-3F,
                                           0x1.eeda58p-5F,  -0x1.eda6bcp-8F, -0x1.cea71ap-9F, 0x1.9d9646p-10F,
                                           0x1.bbb6c4p-13F, -0x1.e5e228p-14F};
};

template <>
struct NormalTail<double> {
  static constexpr double kShift = 5, kLargest = 40;
  static constexpr int kDegree = 22;
  static constexpr double kCoefficient[] = {
      0x1.89d3abe1f95aep-1,   -0x1.54ad03f27ca17p-1, 0x1.fb31653876f8bp-2,   -0x1.410ed5f875a6ap-2,
      0x1.51f6329f01a11p-3,   -0x1.1b1c254c9a992p-4, 0x1.54b4d4f4a514fp-6,   -0x1.88590eaa705cbp-9,
      -0x1.a25037b05efbfp-11, 0x1.1daf1d457438fp-11, -0x1.f214714816ba6p-15, -0x1.a170d59b97d84p-15,
      0x1.17dd8e4f5a4dbp-16,  0x1.0b27e8a4a33d4p-18, -0x1.73b4aa252527ep-19, -0x1.69905adc9bd2fp-22,
      0x1.d14e4e0caf9d1p-22,  0x1.6d0aaf014223ep-25, -0x1.1bc7cbbe85e83p-24, -0x1.4752f79a082cbp-27,
      0x1.075170ec6c739p-27,  0x1.f8b0c76673760p-30, -0x1.1fd16220aecc5p-33};
};

}  // namespace headwise
#endif  // HEADWISE_KERNELS_GELU_TAIL_

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// The share of x that passes, and what its derivative adds to that.
template <class A>
struct Gate {
  A open;   // gelu(x) = x * open
  A slope;  // gelu'(x) = open + slope
};

template <class A>
HWY_INLINE Gate<A> exact_gate(A x) {
  using K = NormalTail<A>;
  const A size = std::fabs(x);
  const A a = K::kLargest < size ? K::kLargest : size;
  const A square = a * a, rest = std::fma(a, a, -square);
  // exp(-(square + rest) / 2): what the square lost in rounding counts where it is large.
  const A bell = lane_exp<A>(square * A(-0.5));
  const A density = std::fma(bell, rest * A(-0.5), bell);
  const A inverse = A{1} / (a + K::kShift), t = (a - K::kShift) * inverse;
  A r = K::kCoefficient[K::kDegree];
#pragma GCC unroll 32
  for (int k = K::kDegree - 1; k >= 0; --k) r = std::fma(r, t, K::kCoefficient[k]);
  const A tail = density * (r * inverse);
  constexpr A kPeak = A(0.39894228040143267794);  // 1 / sqrt(2 pi)
  // Beyond kLargest the density is 0, and x times it must not be NaN.
  return {x < 0 ? tail : A{1} - tail, std::copysign(a, x) * (density * kPeak)};
}

template <class A>
HWY_INLINE Gate<A> tanh_gate(A x) {
  constexpr A kScale = A(0.79788456080286535588), kCubic = A(0.044715);  // kScale: sqrt(2 / pi)
  constexpr A kLargest = A(sizeof(A) == 4 ? 16 : 40);                    // from there on tanh is 1 to the last bit
  const A size = std::fabs(x);
  const A a = kLargest < size ? kLargest : size;
  const A square = a * a;
  const A u = kScale * std::fma(kCubic * square, a, a);
  const A e = lane_exp<A>(u * A{-2});
  const A near_one = A{1} / (A{1} + e);  // the gate of |x|
  const A steep = A{2} * kScale * std::fma(A{3} * kCubic, square, A{1});
  const A slope = a * (e * near_one * near_one) * steep;
  return {x < 0 ? e * near_one : near_one, std::copysign(slope, x)};
}

template <class A>
void exact_forward(const A* x, Index count, A* y) {
  for (Index n = 0; n < count; ++n) y[n] = x[n] * exact_gate<A>(x[n]).open;
}
template <class A>
void tanh_forward(const A* x, Index count, A* y) {
  for (Index n = 0; n < count; ++n) y[n] = x[n] * tanh_gate<A>(x[n]).open;
}
template <class A>
void exact_backward(const A* HWY_RESTRICT x, Index count, A* HWY_RESTRICT grad) {
  for (Index n = 0; n < count; ++n) {
    const Gate<A> gate = exact_gate<A>(x[n]);
    grad[n] = grad[n] * (gate.open + gate.slope);
  }
}
template <class A>
void tanh_backward(const A* HWY_RESTRICT x, Index count, A* HWY_RESTRICT grad) {
  for (Index n = 0; n < count; ++n) {
    const Gate<A> gate = tanh_gate<A>(x[n]);
    grad[n] = grad[n] * (gate.open + gate.slope);
  }
}

void exact_forward_f32(const float* x, Index count, float* y) { exact_forward(x, count, y); }
void exact_forward_f64(const double* x, Index count, double* y) { exact_forward(x, count, y); }
void tanh_forward_f32(const float* x, Index count, float* y) { tanh_forward(x, count, y); }
void tanh_forward_f64(const double* x, Index count, double* y) { tanh_forward(x, count, y); }
void exact_backward_f32(const float* x, Index count, float* grad) { exact_backward(x, count, grad); }
void exact_backward_f64(const double* x, Index count, double* grad) { exact_backward(x, count, grad); }
void tanh_backward_f32(const float* x, Index count, float* grad) { tanh_backward(x, count, grad); }
void tanh_backward_f64(const double* x, Index count, double* grad) { tanh_backward(x, count, grad); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
GeluFunctions<float> gelu_functions_for(GeluForm form, Isa isa) {
  if (form == GeluForm::kTanh) {
    return {HEADWISE_LOOP_FOR_ISA(isa, tanh_forward_f32), HEADWISE_LOOP_FOR_ISA(isa, tanh_backward_f32)};
  }
  return {HEADWISE_LOOP_FOR_ISA(isa, exact_forward_f32), HEADWISE_LOOP_FOR_ISA(isa, exact_backward_f32)};
}
template <>
GeluFunctions<double> gelu_functions_for(GeluForm form, Isa isa) {
  if (form == GeluForm::kTanh) {
    return {HEADWISE_LOOP_FOR_ISA(isa, tanh_forward_f64), HEADWISE_LOOP_FOR_ISA(isa, tanh_backward_f64)};
  }
  return {HEADWISE_LOOP_FOR_ISA(isa, exact_forward_f64), HEADWISE_LOOP_FOR_ISA(isa, exact_backward_f64)};
}

}  // namespace headwise
#endif  // HWY_ONCE
