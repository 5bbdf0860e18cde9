// SPDX-License-Identifier: Apache-2.0
// Wrong outputs are made here with the layer itself and with plain arithmetic on what it hands out, not with the plain
// layer that the diagnosis uses.
#include "headwise/lens/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/half.h"
#include "tests/support/diagnosed_layer.h"

namespace headwise {
namespace {

using ::testing::ElementsAre;
using namespace headwise::testing;  // NOLINT(google-build-using-namespace)

// What the layer works with, for mistakes made by hand.
struct Inside {
  Tensor<float, 4> queries, keys, values;
  Inside(const Layer& layer, const Tensor<float, 3>& x) {
    const AttentionSizes& sizes = layer.sizes();
    queries = Tensor<float, 4>({kBatch, sizes.heads, kSeq, sizes.head_dim});
    keys = values = Tensor<float, 4>({kBatch, sizes.kv_heads, kSeq, sizes.head_dim});
    LayerOutputs<float> extras;
    extras.queries = queries.view();
    extras.keys = keys.view();
    extras.values = values.view();
    layer.forward(x.cview(), {}, {}, nullptr, extras);
  }
};

Tensor<float, 3> projected(const Layer& layer, const Tensor<float, 3>& merged) {
  Tensor<float, 3> out(merged.shape());
  const Shape<2> rows{kBatch * kSeq, merged.size(2)};
  layer.out_proj().forward(layer.out_proj().all_rows(), {merged.data(), rows}, TensorView<float, 2>(out.data(), rows),
                           {});
  return out;
}

// Softmax by hand with `weigh` called for each head's (seq, seq) scores.
template <class Weigh>
Tensor<float, 3> by_hand(const Layer& layer, const Tensor<float, 3>& x, const Weigh& weigh) {
  const Inside inside(layer, x);
  const Index heads = layer.sizes().heads, width = layer.sizes().head_dim;
  Tensor<float, 3> merged(x.shape());
  for (Index b = 0; b < kBatch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      Tensor<double, 2> weights({kSeq, kSeq});
      for (Index i = 0; i < kSeq; ++i) {
        for (Index j = 0; j < kSeq; ++j) {
          for (Index d = 0; d < width; ++d) weights(i, j) += inside.queries(b, h, i, d) * inside.keys(b, h, j, d);
          weights(i, j) /= std::sqrt(static_cast<double>(width));
        }
      }
      weigh(weights);
      for (Index i = 0; i < kSeq; ++i) {
        for (Index d = 0; d < width; ++d) {
          double sum = 0;
          for (Index j = 0; j < kSeq; ++j) sum += weights(i, j) * inside.values(b, h, j, d);
          merged(b, i, h * width + d) = static_cast<float>(sum);
        }
      }
    }
  }
  return projected(layer, merged);
}

void softmax_rows(Tensor<double, 2>& weights, bool causal) {
  for (Index i = 0; i < kSeq; ++i) {
    double sum = 0;
    for (Index j = 0; j < kSeq; ++j) {
      weights(i, j) = causal && j > i ? 0 : std::exp(weights(i, j));
      sum += weights(i, j);
    }
    for (Index j = 0; j < kSeq; ++j) weights(i, j) /= sum;
  }
}

using Diagnose = DiagnosedLayer;

TEST_P(Diagnose, a_right_output_is_right) {
  EXPECT_EQ(examine(layer_, x_, layer_.forward(x_.cview())).verdict, Verdict::kRight);
}

TEST_P(Diagnose, a_right_output_in_another_order_or_precision_is_right) {
  const auto right = by_hand(layer_, x_, [](Tensor<double, 2>& weights) { softmax_rows(weights, true); });
  EXPECT_EQ(examine(layer_, x_, right).verdict, Verdict::kRight);
  Tensor<float, 3> rounded = layer_.forward(x_.cview());
  for (Index i = 0; i < rounded.elements(); ++i) rounded.data()[i] = to_float(to_bfloat16(rounded.data()[i]));
  EXPECT_EQ(examine(layer_, x_, rounded).verdict, Verdict::kRight);
  Layer narrow = layer_;
  for (const Parameter<float>& parameter : narrow.parameters()) {
    for (float& value : parameter.values()) value = to_float(to_bfloat16(value));
  }
  EXPECT_EQ(examine(layer_, x_, narrow.forward(x_.cview())).verdict, Verdict::kRight);
}

TEST_P(Diagnose, an_output_of_nobody_fits_nothing) {
  EXPECT_EQ(examine(layer_, x_, input(seed() + 7)).verdict, Verdict::kNone);
  Tensor<float, 3> broken = layer_.forward(x_.cview());
  broken.fill(NAN);
  EXPECT_EQ(examine(layer_, x_, broken).verdict, Verdict::kNone);
}

TEST_P(Diagnose, straight_views_are_named) {
  const Inside inside(layer_, x_);
  const auto straight = [](const Tensor<float, 4>& heads) {  // the projection as it lies, cut another way
    Tensor<float, 3> flat({kBatch, kSeq, heads.size(1) * heads.size(3)});
    copy_elements(heads.cview().transpose(1, 2), flat.view().split(2, heads.size(1)));
    return flat;
  };
  const Tensor<float, 3> q = straight(inside.queries), k = straight(inside.keys), v = straight(inside.values);
  const auto heads_first = [&](const Tensor<float, 3>& flat) {
    return TensorView<const float, 4>(flat.data(), inside.queries.shape());
  };
  AttentionProblem<float> problem{{heads_first(q), heads_first(k), heads_first(v)}, {}, {}, {}};
  problem.visibility.causal = true;
  Tensor<float, 3> merged(x_.shape());
  AttentionOutputs<float> outputs;
  outputs.context = TensorView<float, 4>(merged.data(), inside.queries.shape());
  attention_forward(problem, outputs);
  expect_named(layer_, projected(layer_, merged), "view_without_transpose");
  outputs.context = merged.view().split(2, 3).transpose(1, 2);
  attention_forward(problem, outputs);
  expect_named(layer_, projected(layer_, merged), "split_without_transpose");
  problem.inputs = {inside.queries.cview(), inside.keys.cview(), inside.values.cview()};
  outputs.context = TensorView<float, 4>(merged.data(), inside.queries.shape());
  attention_forward(problem, outputs);
  expect_named(layer_, projected(layer_, merged), "merge_without_transpose");
}

TEST_P(Diagnose, one_head_for_all_is_named) {
  Layer one = layer_of(options_of({12, 1, 1}, seed()));
  one.load(layer_.state());
  expect_named(layer_, one.forward(x_.cview()), "no_head_axis");
}

TEST_P(Diagnose, wrong_scales_are_named) {
  ForwardOptions<float> options;
  options.rule.scale = 1 / std::sqrt(12.0);
  expect_named(layer_, layer_.forward(x_.cview(), {}, options), "scale_by_d_out");
  options.rule.scale = 1;
  expect_named(layer_, layer_.forward(x_.cview(), {}, options), "no_scale");
}

TEST_P(Diagnose, a_softmax_of_the_wrong_axis_or_twice_is_named) {
  const auto over_queries = [](Tensor<double, 2>& weights) {
    for (Index j = 0; j < kSeq; ++j) {
      double sum = 0;
      for (Index i = 0; i < kSeq; ++i) sum += weights(i, j) = i < j ? 0 : std::exp(weights(i, j));
      for (Index i = 0; i < kSeq; ++i) weights(i, j) /= sum;
    }
  };
  expect_named(layer_, by_hand(layer_, x_, over_queries), "softmax_over_queries");
  const auto twice = [](Tensor<double, 2>& weights) {
    softmax_rows(weights, true);
    softmax_rows(weights, true);
  };
  expect_named(layer_, by_hand(layer_, x_, twice), "softmax_twice");
  const auto twice_unmasked = [](Tensor<double, 2>& weights) {
    softmax_rows(weights, true);
    softmax_rows(weights, false);
  };
  expect_named(layer_, by_hand(layer_, x_, twice_unmasked), "softmax_twice_unmasked");
}

TEST_P(Diagnose, wrong_masks_are_named) {
  const auto late = [](Tensor<double, 2>& weights) {
    softmax_rows(weights, false);
    for (Index i = 0; i < kSeq; ++i) {
      for (Index j = i + 1; j < kSeq; ++j) weights(i, j) = 0;
    }
  };
  expect_named(layer_, by_hand(layer_, x_, late), "mask_after_softmax");
  MultiHeadAttentionOptions options = options_of({}, seed());
  options.causal = false;
  const Layer open = layer_of(options);
  expect_named(layer_, open.forward(x_.cview()), "no_mask");
  expect_named(open, layer_.forward(x_.cview()), "mask_not_asked_for");
  Tensor<bool, 4> blocked({1, 1, kSeq, kSeq});
  for (Index i = 0; i < kSeq; ++i) {
    for (Index j = i + 1; j < kSeq; ++j) blocked(0, 0, i, j) = true;
  }
  ForwardOptions<float> inverted;
  inverted.visibility.mask = blocked.cview();
  const Tensor<float, 3> zeros = open.forward(x_.cview(), {}, inverted);
  expect_named(layer_, zeros, "mask_inverted");
  Tensor<float, 3> as_torch = zeros;  // where the row that sees nothing is NaN
  for (Index b = 0; b < kBatch; ++b) {
    for (Index d = 0; d < 12; ++d) as_torch(b, kSeq - 1, d) = NAN;
  }
  expect_named(layer_, as_torch, "mask_inverted");
}

TEST_P(Diagnose, the_last_queries_aligned_upper_left_are_named_and_lower_right_are_right) {
  ForwardOptions<float> options;
  const TensorView<const float, 3> last = x_.cview().slice(1, kSeq - 2, kSeq);
  options.visibility.alignment = Alignment::kUpperLeft;
  expect_named(layer_, layer_.forward(last, x_.cview(), options), "mask_upper_left");
  options.visibility.alignment = Alignment::kLowerRight;
  EXPECT_EQ(examine(layer_, x_, layer_.forward(last, x_.cview(), options)).verdict, Verdict::kRight);
}

TEST_P(Diagnose, windows_off_by_one_are_named) {
  MultiHeadAttentionOptions options = options_of({}, seed());
  options.window_left = 3;
  const Layer windowed = layer_of(options);
  options.window_left = 4;
  expect_named(windowed, layer_of(options).forward(x_.cview()), "window_one_more");
  options.window_left = 2;
  expect_named(windowed, layer_of(options).forward(x_.cview()), "window_one_less");
}

TEST_P(Diagnose, rotary_mistakes_are_named) {
  MultiHeadAttentionOptions options = options_of({}, seed());
  const Layer without = layer_of(options);
  options.rotary = RotaryRule{};
  const Layer half = layer_of(options);
  options.rotary->style = RotaryStyle::kInterleaved;
  const Layer interleaved = layer_of(options);
  EXPECT_EQ(examine(half, x_, half.forward(x_.cview())).verdict, Verdict::kRight);
  expect_named(half, interleaved.forward(x_.cview()), "rotary_style");
  expect_named(interleaved, half.forward(x_.cview()), "rotary_style");
  expect_named(half, without.forward(x_.cview()), "no_rotary");
}

TEST_P(Diagnose, norms_and_scaled_turns_are_right_as_they_are) {
  for (const bool whole : {false, true}) {
    MultiHeadAttentionOptions options = options_of({}, seed());
    options.query_key_norm = QueryKeyNorm{whole, 1e-3};
    options.rotary = RotaryRule{.scaling = RotaryScaling::kYarn, .factor = 4, .attention_factor = 1.25};
    const Layer layer = layer_of(options);
    EXPECT_EQ(examine(layer, x_, layer.forward(x_.cview())).verdict, Verdict::kRight);
  }
}

TEST_P(Diagnose, dropout_left_on_is_named_with_its_probability) {
  MultiHeadAttentionOptions options = options_of({}, seed());
  options.dropout = 0.25;
  const Layer dropping = layer_of(options);
  ForwardOptions<float> training;
  training.dropout.training = true;
  const Diagnosis found = examine(dropping, x_, dropping.forward(x_.cview(), {}, training));
  EXPECT_EQ(found.verdict, Verdict::kMistake);
  EXPECT_THAT(found.names, ElementsAre("dropout_left_on"));
  const auto is_dropout = [](const MistakeDistance& one) { return one.name == "dropout_left_on"; };
  EXPECT_EQ(std::find_if(found.distances.begin(), found.distances.end(), is_dropout)->what,
            "dropout left on: p is about 0.25");
}

INSTANTIATE_TEST_SUITE_P(ThreeLayers, Diagnose, ::testing::Values(1, 2, 3));

TEST(DiagnoseErrors, name_the_argument_and_both_numbers) {
  const Layer layer = layer_of(options_of({}, 1));
  const Tensor<float, 3> x = input(1);
  const auto message = [&](const Shape<3>& shape) -> std::string {
    try {
      diagnose<float>(layer, x.cview(), Tensor<double, 3>(shape).cview());
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({2, 8, 12}), "diagnose: got must have 1..seq=7 tokens, got 8");
  EXPECT_EQ(message({2, 7, 11}), "diagnose: got must be (batch=2, seq, d_out=12), got (2, 7, 11)");
}

}  // namespace
}  // namespace headwise
