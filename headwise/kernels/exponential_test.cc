// SPDX-License-Identifier: Apache-2.0
// exp over every float of its range, in the vector bodies that the kernels use; tanh and log against the mathematics.
//
// HEADWISE_TEST_CASES (percent) thins out the floats: slow builds take one of many.
#include "headwise/kernels/exponential.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/exponential_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/simd-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// in and out: (count,), count a multiple of 16.
template <class A>
void ExpAll(const A* in, A* out, Index count) {
  const Tag<A> d;
  for (Index n = 0; n < count; n += kLanes<A>) hn::StoreU(Exp<A>(hn::LoadU(d, in + n)), d, out + n);
}
template <class A>
void TanhAll(const A* in, A* out, Index count) {
  const Tag<A> d;
  for (Index n = 0; n < count; n += kLanes<A>) hn::StoreU(Tanh<A>(hn::LoadU(d, in + n)), d, out + n);
}
void ExpF32(const float* in, float* out, Index count) { ExpAll(in, out, count); }
void ExpF64(const double* in, double* out, Index count) { ExpAll(in, out, count); }
void TanhF32(const float* in, float* out, Index count) { TanhAll(in, out, count); }
void TanhF64(const double* in, double* out, Index count) { TanhAll(in, out, count); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#if HWY_ONCE
#include <gtest/gtest.h>

#include <thread>

#include "headwise/kernels/dispatch.h"
#include "headwise/kernels/row_statistics.h"
#include "tests/support/case_count.h"

namespace headwise {
namespace {

template <class A>
using Function = void (*)(const A* in, A* out, Index count);

Function<float> exp_for(Isa isa, float) { return HEADWISE_FOR_ISA(isa, ExpF32); }
Function<double> exp_for(Isa isa, double) { return HEADWISE_FOR_ISA(isa, ExpF64); }
Function<float> tanh_for(Isa isa, float) { return HEADWISE_FOR_ISA(isa, TanhF32); }
Function<double> tanh_for(Isa isa, double) { return HEADWISE_FOR_ISA(isa, TanhF64); }

std::vector<Isa> vector_isas() {
  std::vector<Isa> isas = available_isas();
  std::erase(isas, Isa::kCanonical);
  return isas;
}

// The spacing of floats at a positive normal value.
double float_ulp(double value) {
  constexpr std::uint64_t kExponent = 0x7FF0000000000000U;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(value) & kExponent) - (std::uint64_t{23} << 52));
}

// Bit patterns of the floats of [-87.33, -0]: from -0 downwards they only grow.
constexpr std::uint32_t kFirst = 0x80000000U;
const std::uint32_t kLast = std::bit_cast<std::uint32_t>(ExpConstants<float>::kLowest);

struct Worst {
  double ulps = 0;
  Index measured = 0;
};

// Largest error over patterns kFirst + part, kFirst + part + step, ...; double's exp is exact for this purpose.
Worst measure(Function<float> function, std::uint32_t part, std::uint32_t step) {
  constexpr Index kRun = 4096;
  std::vector<float> in(kRun), out(kRun);
  Worst worst;
  std::uint64_t pattern = std::uint64_t{kFirst} + part;
  while (pattern <= kLast) {
    Index count = 0;
    for (; count < kRun && pattern <= kLast; pattern += step) {
      in[count++] = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    }
    std::fill(in.begin() + count, in.end(), -1.0F);
    function(in.data(), out.data(), kRun);
    for (Index n = 0; n < count; ++n) {
      const double exact = std::exp(static_cast<double>(in[n]));
      worst.ulps = std::max(worst.ulps, std::fabs(out[n] - exact) / float_ulp(exact));
    }
    worst.measured += count;
  }
  return worst;
}

TEST(Exponential, IsWithinNineTenthsOfAnUlpOverEveryFloatOfItsRange) {
  const auto step = static_cast<std::uint32_t>(100 / std::min<Index>(testing::case_count(100), 100));
  const Function<float> function = vector_isas().empty() ? nullptr : exp_for(best_isa(), 0.0F);
  ASSERT_NE(function, nullptr) << "this machine has no vector body";
  Worst parts[2];
  {
    std::jthread other([&] { parts[1] = measure(function, step, 2 * step); });
    parts[0] = measure(function, 0, 2 * step);
  }
  const double worst = std::max(parts[0].ulps, parts[1].ulps);
  RecordProperty("worst_ulps", std::to_string(worst));
  EXPECT_LT(worst, 0.883);
  if (step == 1) {
    EXPECT_EQ(parts[0].measured + parts[1].measured, 1'118'742'775);
    EXPECT_GT(worst, 0.882);  // what docs/numerics.md states
  }
}

// Bits of the vector body against the plain one: a prime step through the whole range, then both ends and beyond.
template <class A>
std::vector<A> sample(A lowest) {
  using Bits = typename ExpConstants<A>::Bits;
  const Bits first = std::bit_cast<Bits>(A{-0.0}), last = std::bit_cast<Bits>(lowest);
  std::vector<A> values;
  constexpr Bits kCount = 1'000'003;
  for (Bits n = 0; n < kCount; ++n)
    values.push_back(std::bit_cast<A>(static_cast<Bits>(first + (last - first) / kCount * n)));
  for (Bits n = 0; n < 4096; ++n) {
    values.push_back(std::bit_cast<A>(static_cast<Bits>(first + n)));
    values.push_back(std::bit_cast<A>(static_cast<Bits>(last + n - 2048)));
  }
  for (A edge : {A{0}, -std::numeric_limits<A>::infinity(), std::numeric_limits<A>::quiet_NaN(),
                 std::numeric_limits<A>::lowest(), -std::numeric_limits<A>::denorm_min()}) {
    values.push_back(edge);
  }
  values.resize((values.size() + 15) / 16 * 16, A{-1});
  return values;
}

template <class A>
bool same(A a, A b) {
  using Bits = typename ExpConstants<A>::Bits;
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

template <class A>
void expect_vector_equals_plain(const std::vector<A>& values, Function<A> function, A (*plain)(A), const char* what) {
  std::vector<A> out(values.size());
  function(values.data(), out.data(), static_cast<Index>(values.size()));
  for (std::size_t n = 0; n < values.size(); ++n) {
    ASSERT_TRUE(same(plain(values[n]), out[n])) << what << " of " << values[n] << ": " << out[n];
  }
}

TEST(Exponential, EveryVectorBodyHasTheBitsOfThePlainOne) {
  for (Isa isa : vector_isas()) {
    expect_vector_equals_plain<float>(sample(-87.33F), exp_for(isa, 0.0F), &canonical_exp<float>, "exp");
    expect_vector_equals_plain<double>(sample(-708.39), exp_for(isa, 0.0), &canonical_exp<double>, "exp");
    expect_vector_equals_plain<float>(sample(-30.0F), tanh_for(isa, 0.0F), &canonical_tanh<float>, "tanh");
    expect_vector_equals_plain<double>(sample(-30.0), tanh_for(isa, 0.0), &canonical_tanh<double>, "tanh");
  }
}

TEST(Exponential, HasItsExactValuesExactly) {
  EXPECT_TRUE(same(canonical_exp(0.0F), 1.0F) && same(canonical_exp(-0.0F), 1.0F));
  EXPECT_TRUE(same(canonical_exp(0.0), 1.0) && same(canonical_exp(-0.0), 1.0));
  EXPECT_TRUE(same(canonical_exp(-std::numeric_limits<float>::infinity()), 0.0F));
  EXPECT_TRUE(same(canonical_exp(-std::numeric_limits<double>::infinity()), 0.0));
  EXPECT_TRUE(std::isnan(canonical_exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(canonical_exp(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_GT(canonical_exp(-87.33F), 0.0F);
  EXPECT_TRUE(same(canonical_exp(std::nextafter(-87.33F, -100.0F)), 0.0F));
  EXPECT_GT(canonical_exp(-708.39), 0.0);
  EXPECT_TRUE(same(canonical_exp(std::nextafter(-708.39, -1000.0)), 0.0));
}

// Largest error in ulps of A against `exact`, computed in long double, over evenly spaced x.
template <class A>
double worst_ulps(A from, A to, Index count, A (*function)(A), long double (*exact)(long double)) {
  long double worst = 0;
  for (Index n = 0; n <= count; ++n) {
    const A x = from + (to - from) * static_cast<A>(n) / static_cast<A>(count);
    const long double value = exact(x);
    const A near = static_cast<A>(std::fabs(value));
    const long double ulp = static_cast<long double>(std::nextafter(near, std::numeric_limits<A>::infinity())) - near;
    worst = std::max(worst, std::fabs(static_cast<long double>(function(x)) - value) / ulp);
  }
  return static_cast<double>(worst);
}

TEST(Exponential, OfADoubleIsWithinOneUlp) {
  EXPECT_LT((worst_ulps<double>(-708.39, 0, 500'000, &canonical_exp<double>, &std::exp)), 1.0);
  EXPECT_LT((worst_ulps<double>(-1, 0, 500'000, &canonical_exp<double>, &std::exp)), 1.0);
}

TEST(Tanh, IsWithinOneAndAHalfUlps) {
  for (double end : {1e-3, 0.625, 1.0, 5.0, 20.0}) {
    EXPECT_LT((worst_ulps<float>(0, static_cast<float>(end), 200'000, &canonical_tanh<float>, &std::tanh)), 1.5) << end;
    EXPECT_LT((worst_ulps<double>(0, end, 200'000, &canonical_tanh<double>, &std::tanh)), 1.5) << end;
  }
}

TEST(Tanh, IsOddAndHasItsExactValuesExactly) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(same(canonical_tanh(0.0F), 0.0F) && same(canonical_tanh(-0.0F), 0.0F));  // a zero score has no sign
  EXPECT_TRUE(same(canonical_tanh(kInfinity), 1.0F) && same(canonical_tanh(-kInfinity), -1.0F));
  EXPECT_TRUE(std::isnan(canonical_tanh(std::numeric_limits<float>::quiet_NaN())));
  for (float x : {1e-30F, 0.1F, 0.624F, 0.625F, 3.0F, 100.0F}) {
    EXPECT_TRUE(same(canonical_tanh(-x), -canonical_tanh(x))) << x;
  }
}

TEST(Log, IsWithinTwoUlpsOfLongDouble) {
  for (double end : {1e-300, 1e-10, 0.5, 0.99, 1.01, 2.0, 1e6, 1e300}) {
    EXPECT_LT((worst_ulps<double>(end / 2, end * 2, 50'000, &canonical_log, &std::log)), 2) << end;
  }
  EXPECT_TRUE(same(canonical_log(1.0), 0.0));
  EXPECT_EQ(canonical_log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(canonical_log(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(canonical_log(-1.0)) && std::isnan(canonical_log(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace headwise
#endif  // HWY_ONCE
