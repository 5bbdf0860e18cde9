// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/gelu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tensors.h"

namespace headwise {
namespace {

TEST(Gelu, is_x_times_the_normal_distribution_of_x) {
  // Simpson's rule over the density, from far below: independent of erf.
  const auto distribution = [](double x) {
    const int steps = 20000;
    const double from = -12, step = (x - from) / steps;
    double sum = 0;
    for (int i = 0; i <= steps; ++i) {
      const double at = from + i * step, factor = i == 0 || i == steps ? 1 : (i % 2 == 1 ? 4 : 2);
      sum += factor * std::exp(-0.5 * at * at);
    }
    return sum * step / 3 / std::sqrt(2 * std::acos(-1.0));
  };
  Tensor<double, 2> x = testing::matrix<double>({{-3, -1, -0.25}, {0, 0.5, 2.75}});
  const Tensor<double, 2> before = x;
  gelu_forward<double>("gelu", x.cview(), x.view());
  for (Index i = 0; i < 6; ++i) {
    EXPECT_NEAR(x.data()[i], before.data()[i] * distribution(before.data()[i]), 1e-12);
  }
}

TEST(Gelu, keeps_its_relative_accuracy_far_below_zero) {
  Tensor<float, 2> x = testing::matrix<float>({{-8}});
  gelu_forward<float>("gelu", x.cview(), x.view());
  EXPECT_NEAR(x(0, 0) / -4.97676898e-15, 1, 1e-6);  // -8 times 6.22096057e-16
}

}  // namespace
}  // namespace headwise
