// SPDX-License-Identifier: Apache-2.0
// exp and tanh of the canonical program, one value at a time. vector_math-inl.h is the same operations on vectors.
#ifndef HEADWISE_KERNELS_EXPONENTIAL_H_
#define HEADWISE_KERNELS_EXPONENTIAL_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace headwise {

// exp(x) = 2^n exp(r), n = round(x log2(e)), r = x - n ln(2) in two fused steps. Adding kRound leaves n in the low bits
// of the sum, from where a shift moves it into the exponent.
template <class A>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr float kLog2E = 0x1.715476p+0F;
  static constexpr float kRound = 0x1.8p+23F;
  static constexpr float kLn2High = 0x1.62e43p-1F;
  static constexpr float kLn2Low = -0x1.05c610p-29F;
  static constexpr float kLowest = -87.33F;  // below: 0
  // exp(r) = 1 + r + r^2 (..) on |r| <= ln(2) / 2; relative error of the polynomial 3.1e-9.
  static constexpr int kDegree = 6;
  static constexpr float kCoefficient[] = {1.0F,           1.0F,          0x1.fffffcp-2F, 0x1.555492p-3F,
                                           0x1.5558f2p-5F, 0x1.123a2p-7F, 0x1.6a23cep-10F};
};

template <>
struct ExpConstants<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr double kLog2E = 0x1.71547652b82fep+0;
  static constexpr double kRound = 0x1.8p+52;
  static constexpr double kLn2High = 0x1.62e42fefa39efp-1;
  static constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
  static constexpr double kLowest = -708.39;
  // Taylor; the first term left out is below 5e-18 relative.
  static constexpr int kDegree = 13;
  static constexpr double kCoefficient[] = {
      1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
      1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
};

// exp of x <= 0. NaN stays NaN; x < kLowest (and -inf) gives 0. At most 1 ulp off on [kLowest, 0].
template <class A>
inline A canonical_exp(A x) {
  using K = ExpConstants<A>;
  using Bits = typename K::Bits;
  if (x < K::kLowest) return 0;
  const A shifted = std::fma(x, K::kLog2E, K::kRound);
  const A n = shifted - K::kRound;
  A r = std::fma(n, -K::kLn2High, x);
  r = std::fma(n, -K::kLn2Low, r);
  A p = K::kCoefficient[K::kDegree];
  for (int k = K::kDegree - 1; k >= 0; --k) p = std::fma(p, r, K::kCoefficient[k]);
  return std::bit_cast<A>(
      static_cast<Bits>(std::bit_cast<Bits>(p) + static_cast<Bits>(std::bit_cast<Bits>(shifted) << K::kMantissaBits)));
}

// tanh(y) = y + y^3 P(y^2) / Q(y^2) below kSwitch, (1 - e) / (1 + e) with e = exp(-2 |y|) from there on.
// Coefficients: Cephes (Moshier), tanhf and tanh.
template <class A>
struct TanhConstants;

template <>
struct TanhConstants<float> {
  static constexpr float kSwitch = 0.625F;
  static constexpr int kTop = 4;
  static constexpr float kP[] = {-3.33332819422e-1F, 1.33314422036e-1F, -5.37397155531e-2F, 2.06390887954e-2F,
                                 -5.70498872745e-3F};
  static constexpr int kBottom = 0;
  static constexpr float kQ[] = {1.0F};
};

template <>
struct TanhConstants<double> {
  static constexpr double kSwitch = 0.625;
  static constexpr int kTop = 2;
  static constexpr double kP[] = {-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1};
  static constexpr int kBottom = 3;
  static constexpr double kQ[] = {4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0};
};

template <class A>
inline A canonical_tanh(A y) {
  using K = TanhConstants<A>;
  const A magnitude = std::fabs(y);
  if (magnitude < K::kSwitch) {
    const A square = y * y;
    A ratio = K::kP[K::kTop];
    for (int k = K::kTop - 1; k >= 0; --k) ratio = std::fma(ratio, square, K::kP[k]);
    if constexpr (K::kBottom > 0) {
      A bottom = K::kQ[K::kBottom];
      for (int k = K::kBottom - 1; k >= 0; --k) bottom = std::fma(bottom, square, K::kQ[k]);
      ratio = ratio / bottom;
    }
    return std::fma(y * square, ratio, y);
  }
  const A e = canonical_exp<A>(magnitude * A{-2});
  return std::copysign((A{1} - e) / (A{1} + e), y);
}

}  // namespace headwise

#endif  // HEADWISE_KERNELS_EXPONENTIAL_H_
