// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/layer_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/tensor/errors.h"
#include "tests/support/file_bytes.h"
#include "tests/support/tiny_layer.h"

namespace headwise {
namespace {

using testing::ElementsAre;

std::vector<std::string> all_statistics() { return {kStatisticNames.begin(), kStatisticNames.end()}; }

TEST(LayerRun, TheOutputHasTheBitsOfForwardWhateverElseIsAskedFor) {
  const MultiHeadAttention<float> layer = tiny_layer();
  const Tensor<float, 3> x = tiny_input(2, 7);
  const Tensor<float, 3> expected = layer.forward(x.cview());
  const auto bare = run_layer<float>(layer, x.cview(), {}, {}, {});
  const auto full = run_layer<float>(layer, x.cview(), {}, {}, {.weights = true, .statistics = all_statistics()});
  for (Index i = 0; i < expected.elements(); ++i) {
    EXPECT_EQ(bare.out.data()[i], expected.data()[i]);
    EXPECT_EQ(full.out.data()[i], expected.data()[i]);
  }
  EXPECT_FALSE(bare.weights);
  EXPECT_EQ(bare.find("entropy"), nullptr);
}

TEST(LayerRun, StatisticsAreThoseOfTheWeights) {
  const Tensor<float, 3> x = tiny_input(2, 5);
  const auto run = run_layer<float>(tiny_layer(), x.cview(), {}, {}, {.weights = true, .statistics = all_statistics()});
  for (Index batch = 0; batch < 2; ++batch) {
    for (Index head = 0; head < 2; ++head) {
      for (Index row = 0; row < 5; ++row) {
        double entropy = 0, distance = 0;
        for (Index key = 0; key < 5; ++key) {
          const double weight = run.weights(batch, head, row, key);
          if (weight > 0) entropy -= weight * std::log(weight);
          distance += weight * static_cast<double>(std::abs(row - key));
        }
        EXPECT_NEAR((*run.find("entropy"))(batch, head, row), entropy, 1e-5);
        EXPECT_NEAR((*run.find("distance"))(batch, head, row), distance, 1e-5);
        EXPECT_EQ((*run.find("self"))(batch, head, row), run.weights(batch, head, row, row));
        EXPECT_EQ((*run.find("max_weight"))(batch, head, row),
                  run.weights(batch, head, row, run.top_keys(batch, head, row, 0)));
      }
    }
  }
}

TEST(LayerRun, MeansAreOverEveryQueryThatSeesAKey) {
  Tensor<double, 3> statistic({2, 2, 2}), most({2, 2, 2});
  for (Index i = 0; i < 8; ++i) statistic.data()[i] = static_cast<double>(i), most.data()[i] = 0.5;
  EXPECT_THAT(head_means(statistic, most), ElementsAre((0 + 1 + 4 + 5) / 4.0, (2 + 3 + 6 + 7) / 4.0));
  most(0, 0, 1) = most(1, 0, 0) = most(1, 1, 0) = 0;
  EXPECT_THAT(head_means(statistic, most), ElementsAre((0 + 5) / 2.0, (2 + 3 + 7) / 3.0));
  most(0, 0, 0) = most(1, 0, 1) = 0;
  EXPECT_TRUE(std::isnan(head_means(statistic, most)[0]));
  const Tensor<double, 3> none({2, 1, 0});
  EXPECT_TRUE(std::isnan(head_means(none, none)[0]));
  EXPECT_THROW(head_means(statistic, none), ShapeError);
}

TEST(LayerRun, ArraysComeInTheOrderAskedForWithOrWithoutTheBatchAxis) {
  const LayerRunRequest request{.weights = true, .statistics = {"top_keys", "received"}};
  const Tensor<double, 3> x = tiny_input<double>(1, 3);
  const auto run = run_layer<double>(tiny_layer<double>(), x.cview(), {}, {}, request);
  const auto arrays = run_arrays(run, request, true);
  ASSERT_EQ(arrays.size(), 4U);
  EXPECT_EQ(arrays[0].name, "out");
  EXPECT_THAT(arrays[0].shape, ElementsAre(3, 8));
  EXPECT_EQ(arrays[1].name, "weights");
  EXPECT_THAT(arrays[1].shape, ElementsAre(2, 3, 3));
  EXPECT_EQ(arrays[2].name, "top_keys");
  EXPECT_EQ(arrays[2].dtype, DType::kInt64);
  EXPECT_THAT(arrays[2].shape, ElementsAre(2, 3, 3));
  EXPECT_EQ(arrays[3].dtype, DType::kFloat64);
  EXPECT_THAT(run_arrays(run, request, false)[3].shape, ElementsAre(1, 2, 3));
}

TEST(LayerRun, AnUnknownStatisticIsNamed) {
  const Tensor<float, 3> x = tiny_input(1, 2);
  EXPECT_EQ(message_of([&] { run_layer<float>(tiny_layer(), x.cview(), {}, {}, {.statistics = {"entrpy"}}); }),
            "run: there is no statistic 'entrpy'; the names are entropy, max_weight, top_keys, distance, self, "
            "previous, next, first, received");
}

}  // namespace
}  // namespace headwise
