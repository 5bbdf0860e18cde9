// SPDX-License-Identifier: Apache-2.0
// The plain loops of a model's element-wise parts: every instruction set gives the bits of the one without vectors, and
// those are near the mathematics.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headwise/kernels/adamw_step.h"
#include "headwise/kernels/cross_entropy_rows.h"
#include "headwise/kernels/gelu.h"
#include "headwise/kernels/layer_norm_rows.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

template <class T>
std::vector<T> values(std::size_t count, std::uint64_t seed, double from = -1, double to = 1) {
  std::vector<T> result(count);
  TorchGenerator(seed).fill_uniform(std::span<T>(result), from, to);
  return result;
}

// Two NaNs are equal.
template <class T>
void expect_bits(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t n = 0; n < got.size(); ++n) {
    if (std::isnan(got[n]) && std::isnan(expected[n])) continue;
    ASSERT_EQ(std::memcmp(&got[n], &expected[n], sizeof(T)), 0) << what << " at " << n << ": " << got[n];
  }
}

// run(isa) gives all numbers of one call; the counts make every vector length have a rest.
template <class T, class Run>
void expect_one_result(const Run& run, const std::string& what) {
  const std::vector<T> expected = run(Isa::kCanonical);
  for (const Isa isa : available_isas()) expect_bits<T>(run(isa), expected, what + " " + std::string(isa_name(isa)));
}

template <class T>
class Elementwise : public ::testing::Test {};
using WorkingTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Elementwise, WorkingTypes);

TYPED_TEST(Elementwise, gives_the_same_bits_on_every_instruction_set) {
  using T = TypeParam;
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    std::vector<T> x = values<T>(1003, 1, -12, 12);
    x[3] = std::numeric_limits<T>::infinity();
    x[4] = std::numeric_limits<T>::quiet_NaN();
    x[5] = std::numeric_limits<T>::denorm_min();
    expect_one_result<T>(
        [&](Isa isa) {
          std::vector<T> y(x.size()), grad = values<T>(x.size(), 2);
          gelu_functions_for<T>(form, isa).forward(x.data(), 1003, y.data());
          gelu_functions_for<T>(form, isa).backward(x.data(), 1003, grad.data());
          y.insert(y.end(), grad.begin(), grad.end());
          return y;
        },
        "gelu");
  }
  expect_one_result<T>(
      [](Isa isa) {
        constexpr Index kRows = 5, kWidth = 53;
        const std::vector<T> x = values<T>(kRows * kWidth, 1), weight = values<T>(kWidth, 2),
                             bias = values<T>(kWidth, 3);
        const std::vector<T> grad_y = values<T>(kRows * kWidth, 4);
        std::vector<double> mean(kRows), factor(kRows);
        std::vector<T> all(kRows * kWidth), grad_x(kRows * kWidth), grad_weight(kWidth), grad_bias(kWidth);
        const LayerNormFunctions<T> run = layer_norm_functions_for<T>(isa);
        run.forward({x.data(), all.data(), kWidth, kWidth, kRows, kWidth, weight.data(), bias.data(), 1e-5, mean.data(),
                     factor.data()});
        run.backward({x.data(), grad_y.data(), grad_x.data(), kRows, kWidth, weight.data(), mean.data(), factor.data(),
                      grad_weight.data(), grad_bias.data()});
        for (const auto* more : {&grad_x, &grad_weight, &grad_bias}) all.insert(all.end(), more->begin(), more->end());
        return all;
      },
      "layer norm");
  expect_one_result<T>(
      [](Isa isa) {
        std::vector<T> logits = values<T>(4 * 77, 1, -20, 20);
        const std::int64_t targets[] = {0, 76, 33, 5};
        std::vector<double> losses(4);
        cross_entropy_for<T>(isa)({logits.data(), targets, 4, 77, losses.data(), true, 0.25});
        for (const double loss : losses) logits.push_back(static_cast<T>(loss));
        return logits;
      },
      "cross-entropy");
  expect_one_result<T>(
      [](Isa isa) {
        std::vector<T> value = values<T>(331, 1), gradient = values<T>(331, 2), first = values<T>(331, 3);
        std::vector<T> second = values<T>(331, 4, 0, 1);
        adamw_functions_for<T>(isa).step({value.data(), gradient.data(), first.data(), second.data(), 331, T(0.7),
                                          T(0.9), T(0.99), T(0.999), T(1e-3), T(3), T(1e-8)});
        for (const auto* more : {&first, &second}) value.insert(value.end(), more->begin(), more->end());
        value.push_back(static_cast<T>(adamw_functions_for<T>(isa).sum_squares(gradient.data(), 331)));
        return value;
      },
      "AdamW");
}

TYPED_TEST(Elementwise, gelu_is_near_the_mathematics_at_every_size) {
  using T = TypeParam;
  const double eps = std::numeric_limits<T>::epsilon();
  double worst = 0, worst_tanh = 0, worst_slope = 0;
  for (double at = -35; at <= 35; at += 0.00390625 * 1.37) {
    const T x = static_cast<T>(at);
    const double exact = static_cast<double>(x);
    T y, tanh_y, slope = 1;
    gelu_functions_for<T>(GeluForm::kExact, chosen_isa()).forward(&x, 1, &y);
    gelu_functions_for<T>(GeluForm::kTanh, chosen_isa()).forward(&x, 1, &tanh_y);
    gelu_functions_for<T>(GeluForm::kExact, chosen_isa()).backward(&x, 1, &slope);
    // In double the rounding of x / sqrt(2) alone would be a hundred times the limit.
    const double phi = static_cast<double>(0.5L * std::erfc(-static_cast<long double>(exact) / std::sqrt(2.0L)));
    const double density = 0.3989422804014327 * std::exp(-exact * exact / 2);
    if (std::abs(exact * phi) > std::numeric_limits<T>::min() * 4) {
      worst = std::max(worst, std::abs(static_cast<double>(y) / (exact * phi) - 1));
    }
    const double u = 0.7978845608028654 * (exact + 0.044715 * exact * exact * exact);
    worst_tanh = std::max(worst_tanh, std::abs(static_cast<double>(tanh_y) - exact / (1 + std::exp(-2 * u))) /
                                          std::max(1.0, std::abs(exact)));
    worst_slope = std::max(worst_slope, std::abs(static_cast<double>(slope) - (phi + exact * density)));
  }
  // The tail's exponential has a relative error of a few rounding errors; nothing of it grows with x.
  EXPECT_LT(worst, 6 * eps);
  EXPECT_LT(worst_tanh, 2 * eps);
  EXPECT_LT(worst_slope, 4 * eps);
}

TYPED_TEST(Elementwise, cross_entropy_keeps_far_away_logits_and_hands_on_nan) {
  using T = TypeParam;
  std::vector<T> logits{T(1000), T(0), T(-1000), T(1), T(2), std::numeric_limits<T>::quiet_NaN()};
  const std::int64_t targets[] = {1, 0};
  std::vector<double> losses(2);
  cross_entropy_for<T>(chosen_isa())({logits.data(), targets, 2, 3, losses.data(), true, 1});
  EXPECT_EQ(losses[0], 1000);
  EXPECT_EQ(logits[0], 1);
  EXPECT_EQ(logits[1], -1);
  EXPECT_EQ(logits[2], 0);
  EXPECT_TRUE(std::isnan(losses[1]));
}

}  // namespace
}  // namespace headwise
