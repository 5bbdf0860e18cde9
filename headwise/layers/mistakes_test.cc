// SPDX-License-Identifier: Apache-2.0
// What each known mistake makes of the weight-split layer of seed 123: rows 1, 2 and 6 of the output. The right layer
// gives none of these rows where the mistake shows, and each mistake is made here on purpose.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "headwise/layers/multi_head_attention.h"
#include "tests/support/golden.h"

namespace headwise {
namespace {

using testing::golden_batch;
using testing::kGoldenTolerance;
using testing::Rows;

constexpr Index kSeq = 6, kHeads = 2;

MultiHeadAttentionOptions options_of(Index heads, bool causal) {
  MultiHeadAttentionOptions options;
  options.num_heads = heads;
  options.causal = causal;
  options.seed = 123;
  return options;
}

class Mistakes : public ::testing::Test {
 protected:
  Mistakes() : layer_(3, 2, options_of(kHeads, true)), x_(golden_batch<float>()) {
    layer_.forward(x(), {}, {}, &kept_);
  }

  TensorView<const float, 3> x() const { return x_.cview().slice(0, 0, 1); }
  // Queries, keys and values (6, 2) before the heads are split.
  TensorView<const float, 2> projected(Index part) const {
    return kept_.projected.cview().select(0, 0).slice(1, 2 * part, 2 * part + 2);
  }
  Tensor<float, 2> dense(Index part) const { return Tensor<float, 2>(projected(part)); }

  // The output projection of merged heads (6, 2).
  Tensor<float, 2> out_of(const Tensor<float, 2>& merged) const {
    Tensor<float, 2> out(Shape<2>{merged.size(0), 2});
    layer_.out_proj().forward({0, 2}, merged.cview(), out.view(), {});
    return out;
  }

  // The wrong layer gives the expected rows of these numbers; the right layer does not give all of them, though it does
  // give the one in `also_right`.
  void expect_signature(TensorView<const float, 2> wrong, const Rows& expected,
                        const std::vector<Index>& numbers = {0, 1, 5}, std::optional<Index> also_right = {}) const {
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const TensorView<const float, 2> row = wrong.size(0) == 1 ? wrong : wrong.slice(0, numbers[n], numbers[n] + 1);
      testing::expect_rows(row, {expected[n]}, kGoldenTolerance, "row " + std::to_string(numbers[n]));
    }
    bool found = false;
    const Tensor<float, 3> right = layer_.forward(x());
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const auto row = right.cview().select(0, 0).slice(0, numbers[n], numbers[n] + 1);
      const bool differs = testing::differs(row, {expected[n]}, kGoldenTolerance);
      found = found || differs;
      EXPECT_TRUE(also_right != numbers[n] || !differs) << "row " << numbers[n] << " should hide this mistake";
    }
    EXPECT_TRUE(found) << "the right layer has this signature too";
  }

  // With head_dim 1 a score is a product and the scale is 1.
  float score(Index head, Index i, Index j) const { return projected(0)(i, head) * projected(1)(j, head); }

  MultiHeadAttention<float> layer_;
  Tensor<float, 3> x_;
  Activations<float> kept_;
};

TEST_F(Mistakes, the_right_layer_has_the_published_rows) {
  const Tensor<float, 3> out = layer_.forward(x());
  testing::expect_rows(out.cview().select(0, 0), testing::kMultiHead, kGoldenTolerance);
}

TEST_F(Mistakes, viewing_straight_to_heads_first_mixes_tokens) {
  Tensor<float, 2> q = dense(0), k = dense(1), v = dense(2), merged(Shape<2>{kSeq, 2});
  const auto straight = [](Tensor<float, 2>& t) { return TensorView<float, 4>(t.data(), {1, kHeads, kSeq, 1}); };
  AttentionProblem<float> problem{{straight(q), straight(k), straight(v)}, {}, {}, {}};
  problem.visibility.causal = true;
  AttentionOutputs<float> outputs;
  outputs.context = straight(merged);
  attention_forward(problem, outputs);
  expect_signature(out_of(merged).cview(), {{.2553, .4488}, {.1893, .4593}, {.1802, .4799}});
}

TEST_F(Mistakes, merging_without_the_transpose_back_mixes_tokens) {
  Tensor<float, 4> context(Shape<4>{1, kHeads, kSeq, 1});
  LayerOutputs<float> extras;
  extras.context = context.view();
  layer_.forward(x(), {}, {}, nullptr, extras);
  const Tensor<float, 2> merged(TensorView<const float, 2>(context.data(), {kSeq, 2}));
  expect_signature(out_of(merged).cview(), {{.1351, .3790}, {.1696, .2920}, {.1850, .6201}});
}

TEST_F(Mistakes, without_the_head_axis_it_is_one_head) {
  MultiHeadAttention<float> one(3, 2, options_of(1, true));
  const Tensor<float, 3> out = one.forward(x());
  expect_signature(out.cview().select(0, 0), {{.3190, .4858}, {.2926, .3896}, {.2572, .4033}}, {0, 1, 5}, 0);
}

TEST_F(Mistakes, scaling_by_the_whole_width) {
  ForwardOptions<float> options;
  options.rule.scale = 1 / std::sqrt(2.0);
  const Tensor<float, 3> out = layer_.forward(x(), {}, options);
  expect_signature(out.cview().select(0, 0), {{.3190, .4858}, {.2941, .3906}, {.2574, .4033}}, {0, 1, 5}, 0);
}

TEST_F(Mistakes, a_softmax_over_the_queries) {
  Tensor<float, 2> merged(Shape<2>{kSeq, 2});
  for (Index h = 0; h < kHeads; ++h) {
    for (Index j = 0; j < kSeq; ++j) {
      float sum = 0;
      for (Index i = j; i < kSeq; ++i) sum += std::exp(score(h, i, j));
      for (Index i = j; i < kSeq; ++i) merged(i, h) += std::exp(score(h, i, j)) / sum * projected(2)(j, h);
    }
  }
  expect_signature(out_of(merged).cview(), {{.2160, .6478}, {.2312, .5666}, {.3122, .0561}});
}

TEST_F(Mistakes, masking_after_the_softmax_hides_in_the_last_row) {
  Tensor<float, 2> merged(Shape<2>{kSeq, 2});
  for (Index h = 0; h < kHeads; ++h) {
    for (Index i = 0; i < kSeq; ++i) {
      float sum = 0;
      for (Index j = 0; j < kSeq; ++j) sum += std::exp(score(h, i, j));
      for (Index j = 0; j <= i; ++j) merged(i, h) += std::exp(score(h, i, j)) / sum * projected(2)(j, h);
    }
  }
  expect_signature(out_of(merged).cview(), {{.2146, .6510}, {.2278, .5825}, {.2575, .4028}}, {0, 1, 5}, 5);
}

TEST_F(Mistakes, no_mask_hides_in_the_last_row) {
  MultiHeadAttention<float> unmasked(3, 2, options_of(kHeads, false));
  const Tensor<float, 3> out = unmasked.forward(x());
  expect_signature(out.cview().select(0, 0), {{.2595, .4014}, {.2583, .4014}, {.2575, .4028}}, {0, 1, 5}, 5);
}

TEST_F(Mistakes, an_inverted_mask_leaves_the_last_row_only_the_bias) {
  MultiHeadAttention<float> unmasked(3, 2, options_of(kHeads, false));
  Tensor<bool, 4> blocked(Shape<4>{1, 1, kSeq, kSeq});
  for (Index i = 0; i < kSeq; ++i) {
    for (Index j = i + 1; j < kSeq; ++j) blocked(0, 0, i, j) = true;
  }
  ForwardOptions<float> options;
  options.visibility.mask = blocked.cview();
  const Tensor<float, 3> out = unmasked.forward(x(), {}, options);
  expect_signature(out.cview().select(0, 0), {{.2463, .3841}, {.2401, .4078}, {.1934, .6825}});
}

TEST_F(Mistakes, the_last_query_alone_aligned_upper_left_sees_only_the_first_key) {
  ForwardOptions<float> options;
  options.visibility.alignment = Alignment::kUpperLeft;
  const Tensor<float, 3> out = layer_.forward(x().slice(1, 5, 6), x(), options);
  expect_signature(out.cview().select(0, 0), {{.3190, .4858}}, {5});
}

TEST_F(Mistakes, the_last_query_alone_aligned_lower_right_is_right) {
  ForwardOptions<float> options;
  options.visibility.alignment = Alignment::kLowerRight;
  const Tensor<float, 3> out = layer_.forward(x().slice(1, 5, 6), x(), options);
  testing::expect_rows(out.cview().select(0, 0), {{.2575, .4028}}, kGoldenTolerance);
}

TEST_F(Mistakes, a_window_of_two_keys_is_no_mistake_but_another_layer) {
  ForwardOptions<float> options;
  options.visibility.window_left = 1;
  const Tensor<float, 3> out = layer_.forward(x(), {}, options);
  expect_signature(out.cview().select(0, 0), {{.3190, .4858}, {.2943, .3897}, {.2338, .4354}}, {0, 1, 5}, 1);
}

}  // namespace
}  // namespace headwise
