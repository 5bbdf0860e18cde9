// SPDX-License-Identifier: Apache-2.0
// One lane of arithmetic, for plain loops that the compiler turns into vectors of the target being compiled. Each line
// is one rounding on every target, the one without vectors included, so that one source gives one set of bits.
#if defined(HEADWISE_KERNELS_LANE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_LANE_MATH_INL_H_
#undef HEADWISE_KERNELS_LANE_MATH_INL_H_
#else
#define HEADWISE_KERNELS_LANE_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cmath>

#include "headwise/kernels/blocks.h"
#include "headwise/kernels/exponential.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// canonical_exp without its branch: both results are there, and one is taken.
template <class A>
HWY_INLINE A lane_exp(A x) {
  using K = ExpConstants<A>;
  using Bits = typename K::Bits;
  const A shifted = std::fma(x, K::kLog2E, K::kRound);
  const A n = shifted - K::kRound;
  A r = std::fma(n, -K::kLn2High, x);
  r = std::fma(n, -K::kLn2Low, r);
  A p = K::kCoefficient[K::kDegree];
#pragma GCC unroll 16
  for (int k = K::kDegree - 1; k >= 0; --k) p = std::fma(p, r, K::kCoefficient[k]);
  const A scaled = std::bit_cast<A>(
      static_cast<Bits>(std::bit_cast<Bits>(p) + static_cast<Bits>(std::bit_cast<Bits>(shifted) << K::kMantissaBits)));
  return x < K::kLowest ? A{0} : scaled;
}

// Sum over n in [0, count) of term(n): 16 lanes in double (n mod 16), rising, added by halves: 8, 4, 2, 1.
template <class Term>
HWY_INLINE double lane_sum(Index count, const Term& term) {
  double lanes[kSumLanes] = {};
  Index n = 0;
  for (; n + kSumLanes <= count; n += kSumLanes) {
    for (int lane = 0; lane < kSumLanes; ++lane) lanes[lane] += term(n + lane);
  }
  for (int lane = 0; n + lane < count; ++lane) lanes[lane] += term(n + lane);
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
