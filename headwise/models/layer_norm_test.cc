// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

TEST(LayerNorm, gives_rows_of_mean_zero_and_variance_one) {
  const LayerNorm<float> norm(65, 1e-12);
  Tensor<float, 2> x = testing::random_tensor<float, 2>({3, 65}, 1);
  norm.apply(x.view());
  for (Index t = 0; t < 3; ++t) {
    double sum = 0, squares = 0;
    for (Index i = 0; i < 65; ++i) {
      sum += x(t, i);
      squares += x(t, i) * x(t, i);
    }
    EXPECT_NEAR(sum, 0, 1e-5);
    EXPECT_NEAR(squares / 65, 1, 1e-6);
  }
}

TEST(LayerNorm, scales_and_shifts_with_weight_and_bias_after_eps) {
  LayerNorm<double> norm(2, 3.0);
  std::vector<Parameter<double>> parameters;
  norm.append_parameters("n", parameters);
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].name, "n.weight");
  EXPECT_EQ(parameters[1].name, "n.bias");
  parameters[0].value[1] = 10;
  parameters[1].value[0] = 7;
  // mean 4, variance 1, so the factor is 1 / sqrt(1 + 3)
  Tensor<double, 2> x = testing::matrix<double>({{3, 5}});
  norm.apply(x.view());
  EXPECT_EQ(x(0, 0), -0.5 + 7);
  EXPECT_EQ(x(0, 1), 0.5 * 10);
}

TEST(LayerNorm, keeps_its_accuracy_where_the_mean_is_large) {
  const LayerNorm<float> norm(4, 0);
  Tensor<float, 2> x = testing::matrix<float>({{100000, 100001, 100002, 100003}});
  norm.apply(x.view());
  EXPECT_NEAR(x(0, 0), -1.5 / std::sqrt(1.25), 1e-6);
  EXPECT_NEAR(x(0, 3), 1.5 / std::sqrt(1.25), 1e-6);
}

TEST(LayerNorm, names_both_widths) {
  Tensor<float, 2> x(Shape<2>{2, 3});
  EXPECT_EQ(testing::error_text<ShapeError>([&] { LayerNorm<float>(4, 0).apply(x.view()); }),
            "layer norm: x must be (tokens, width=4), got (2, 3)");
}

}  // namespace
}  // namespace headwise
