// SPDX-License-Identifier: Apache-2.0
// Vectors of the target being compiled, and exp and tanh on them: the operations of exponential.h, lane by lane.
#if defined(HEADWISE_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_SIMD_INL_H_
#undef HEADWISE_KERNELS_SIMD_INL_H_
#else
#define HEADWISE_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include "headwise/kernels/blocks.h"
#include "headwise/kernels/exponential.h"

// The targets with a fused multiply-add in vectors; elsewhere the canonical program runs itself.
#undef HEADWISE_HAS_SIMD
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define HEADWISE_HAS_SIMD 1
#else
#define HEADWISE_HAS_SIMD 0
#endif

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class A>
using Tag = hn::ScalableTag<A>;
template <class A>
using Vector = hn::Vec<Tag<A>>;
template <class A>
inline constexpr int kLanes = static_cast<int>(HWY_MAX_BYTES / sizeof(A));
// A row of 16 neighbouring keys is this many vectors.
template <class A>
inline constexpr int kVectorsPer16 = kSumLanes / kLanes<A>;

template <class A>
HWY_INLINE Vector<A> Exp(Vector<A> x) {
  using K = ExpConstants<A>;
  const Tag<A> d;
  const hn::RebindToUnsigned<Tag<A>> du;
  const auto shifted = hn::MulAdd(x, hn::Set(d, K::kLog2E), hn::Set(d, K::kRound));
  const auto n = hn::Sub(shifted, hn::Set(d, K::kRound));
  auto r = hn::MulAdd(n, hn::Set(d, -K::kLn2High), x);
  r = hn::MulAdd(n, hn::Set(d, -K::kLn2Low), r);
  auto p = hn::Set(d, K::kCoefficient[K::kDegree]);
#pragma GCC unroll 16
  for (int k = K::kDegree - 1; k >= 0; --k) p = hn::MulAdd(p, r, hn::Set(d, K::kCoefficient[k]));
  const auto exponent = hn::ShiftLeft<K::kMantissaBits>(hn::BitCast(du, shifted));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(du, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, K::kLowest)), scaled);
}

template <class A>
HWY_INLINE Vector<A> Tanh(Vector<A> y) {
  using K = TanhConstants<A>;
  const Tag<A> d;
  const auto magnitude = hn::Abs(y);
  const auto square = hn::Mul(y, y);
  auto ratio = hn::Set(d, K::kP[K::kTop]);
  for (int k = K::kTop - 1; k >= 0; --k) ratio = hn::MulAdd(ratio, square, hn::Set(d, K::kP[k]));
  if constexpr (K::kBottom > 0) {
    auto bottom = hn::Set(d, K::kQ[K::kBottom]);
    for (int k = K::kBottom - 1; k >= 0; --k) bottom = hn::MulAdd(bottom, square, hn::Set(d, K::kQ[k]));
    ratio = hn::Div(ratio, bottom);
  }
  const auto small = hn::MulAdd(hn::Mul(y, square), ratio, y);
  const auto e = Exp<A>(hn::Mul(magnitude, hn::Set(d, A{-2})));
  const auto one = hn::Set(d, A{1});
  const auto large = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), y);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, K::kSwitch)), small, large);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#endif  // per-target include guard
