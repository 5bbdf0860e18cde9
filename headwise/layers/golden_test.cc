// SPDX-License-Identifier: Apache-2.0
// The published numbers G1 to G16, each from its seed alone.
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "headwise/kernels/linear.h"
#include "headwise/layers/causal_self_attention.h"
#include "headwise/layers/multi_head_attention.h"
#include "headwise/layers/multi_head_attention_layer.h"
#include "headwise/layers/multi_head_attention_wrapper.h"

namespace headwise {
namespace {

using testing::expect_rows;
using testing::golden_batch;
using testing::kGoldenTolerance;
using testing::kTokens;
using testing::matrix;
using testing::Rows;

MultiHeadAttentionOptions two_heads() {
  MultiHeadAttentionOptions options;
  options.context_length = 6;
  options.num_heads = 2;
  options.seed = 123;
  return options;
}

// The forward of both sequences of the batch; they are equal, so both must give the rows.
template <class T>
void expect_output(const AttentionLayer<T>& layer, const Rows& expected) {
  const Tensor<T, 3> out = layer.forward(golden_batch<T>().view());
  for (Index b = 0; b < 2; ++b) expect_rows<T>(out.cview().select(0, b), expected, kGoldenTolerance);
}

template <class T>
Tensor<T, 4> weights_of(const AttentionLayer<T>& layer) {
  Tensor<T, 4> weights(Shape<4>{2, layer.sizes().heads, 6, 6});
  LayerOutputs<T> extras;
  extras.weights = weights.view();
  layer.forward(golden_batch<T>().view(), {}, {}, nullptr, extras);
  return weights;
}

void expect_parameter(const Parameter<float>& parameter, const std::string& name, const Rows& expected) {
  EXPECT_EQ(parameter.name, name);
  const Shape<2> shape{static_cast<Index>(expected.size()), static_cast<Index>(expected[0].size())};
  expect_rows(TensorView<const float, 2>(parameter.value, shape), expected, kGoldenTolerance, name);
}

// torch.rand(3, 2) three times: matrices (d_in, d_out), put into a layer's (d_out, d_in).
MultiHeadAttentionLayer<float> layer_of_uniform_weights(std::uint64_t seed) {
  MultiHeadAttentionLayer<float> layer(3, 2, {}, 0, 1);
  TorchGenerator generator(seed);
  for (Parameter<float>& parameter : layer.parameters()) {
    for (Index i = 0; i < 3; ++i) {
      for (Index o = 0; o < 2; ++o) parameter.value[o * 3 + i] = generator.uniform24();
    }
  }
  return layer;
}

TEST(Golden, G1_without_weights_attention_is_a_softmax_of_dot_products) {
  const Tensor<float, 2> tokens = matrix<float>(kTokens);
  const TensorView<const float, 4> all(tokens.data(), {1, 1, 6, 3});
  Tensor<float, 2> scores(Shape<2>{1, 6});
  linear_forward<float>(tokens.cview().slice(0, 1, 2), tokens.cview(), {}, scores.view());
  expect_rows(scores.cview(), {{.9544, 1.4950, 1.4754, .8434, .7070, 1.0865}}, kGoldenTolerance);
  Tensor<float, 4> context(Shape<4>{1, 1, 1, 3}), weights(Shape<4>{1, 1, 1, 6});
  AttentionProblem<float> problem{{all.slice(2, 1, 2), all, all}, {}, {}, {}};
  problem.rule.scale = 1;
  AttentionOutputs<float> outputs;
  outputs.context = context.view();
  outputs.weights = weights.view();
  attention_forward(problem, outputs);
  const TensorView<const float, 2> row = weights.cview().select(0, 0).select(0, 0);
  expect_rows(row, {{.1385, .2379, .2333, .1240, .1082, .1581}}, kGoldenTolerance);
  expect_rows(context.cview().select(0, 0).select(0, 0), {{.4419, .6515, .5683}}, kGoldenTolerance);
  // G2: dividing by the plain sum is another thing.
  const float sum = std::accumulate(scores.data(), scores.data() + 6, 0.0F);
  for (Index j = 0; j < 6; ++j) scores(0, j) /= sum;
  const Rows divided{{.1455, .2278, .2249, .1285, .1077, .1656}};
  expect_rows(scores.cview(), divided, kGoldenTolerance);
  EXPECT_TRUE(testing::differs(row, divided, kGoldenTolerance));
}

TEST(Golden, G3_G4_uniform_weights_give_the_first_self_attention) {
  const MultiHeadAttentionLayer<float> layer = layer_of_uniform_weights(123);
  Tensor<float, 4> queries(Shape<4>{2, 1, 6, 2}), keys(Shape<4>{2, 1, 6, 2}), weights(Shape<4>{2, 1, 6, 6});
  LayerOutputs<float> extras;
  extras.queries = queries.view();
  extras.keys = keys.view();
  extras.weights = weights.view();
  const Tensor<float, 3> out = layer.forward(golden_batch<float>().view(), {}, {}, nullptr, extras);
  const auto second = [](const Tensor<float, 4>& t) { return t.cview().select(0, 0).select(0, 0).slice(0, 1, 2); };
  expect_rows(second(queries), {{.4306, 1.4551}}, kGoldenTolerance);
  Tensor<float, 2> scores(Shape<2>{1, 6});
  linear_forward<float>(second(queries), keys.cview().select(0, 0).select(0, 0), {}, scores.view());
  expect_rows(scores.cview(), {{1.2705, 1.8524, 1.8111, 1.0795, .5577, 1.5440}}, kGoldenTolerance);
  expect_rows(second(weights), {{.1500, .2264, .2199, .1311, .0906, .1820}}, kGoldenTolerance);
  expect_rows(out.cview().select(0, 1),
              {{.2996, .8053}, {.3061, .8210}, {.3058, .8203}, {.2948, .7939}, {.2927, .7891}, {.2990, .8040}},
              kGoldenTolerance);
}

TEST(Golden, G5_linear_weights_of_seed_789_give_the_second_self_attention) {
  expect_output(MultiHeadAttentionLayer<float>(3, 2, {}, 0, 1, false, false, 789),
                {{-.0739, .0713}, {-.0748, .0703}, {-.0749, .0702}, {-.0760, .0685}, {-.0763, .0679}, {-.0754, .0693}});
}

TEST(Golden, G6_the_causal_weights_of_seed_789) {
  const Tensor<float, 4> weights = weights_of(CausalSelfAttention<float>(3, 2, 6, 0, false, 789));
  expect_rows(weights.cview().select(0, 0).select(0, 0),
              {{1, 0, 0, 0, 0, 0},
               {.5517, .4483, 0, 0, 0, 0},
               {.3800, .3097, .3103, 0, 0, 0},
               {.2758, .2460, .2462, .2319, 0, 0},
               {.2175, .1983, .1984, .1888, .1971, 0},
               {.1935, .1663, .1666, .1542, .1666, .1529}},
              kGoldenTolerance);
}

TEST(Golden, G7_G8_heads_draw_their_weights_one_after_the_other) {
  WrapperOptions options;
  options.seed = 123;
  auto wrapper = MultiHeadAttentionWrapper<float>::with_head_width(3, 2, 2, options);
  const auto parameters = wrapper.parameters();
  ASSERT_EQ(parameters.size(), 6U);
  expect_parameter(parameters[0], "heads.0.W_query.weight", {{-.2354, .0191, -.2867}, {.2177, -.4919, .4232}});
  expect_parameter(parameters[1], "heads.0.W_key.weight", {{-.4196, -.4590, -.3648}, {.2615, -.2133, .2161}});
  expect_parameter(parameters[2], "heads.0.W_value.weight", {{-.4900, -.3503, -.2120}, {-.1135, -.4404, .3780}});
  expect_parameter(parameters[3], "heads.1.W_query.weight", {{-.1362, .1853, .4083}, {.1076, .1579, .5573}});
  expect_parameter(parameters[4], "heads.1.W_key.weight", {{-.2604, .1829, -.2569}, {.4126, .4611, -.5323}});
  expect_parameter(parameters[5], "heads.1.W_value.weight", {{.4929, .2757, .2516}, {.2377, .4800, -.0762}});
}

TEST(Golden, G9_one_head_without_a_mask) {
  expect_output(
      MultiHeadAttentionLayer<float>(3, 2, {}, 0, 1, false, false, 123),
      {{-.5337, -.1051}, {-.5323, -.1080}, {-.5323, -.1079}, {-.5297, -.1076}, {-.5311, -.1066}, {-.5299, -.1081}});
}

TEST(Golden, G10_one_causal_head) {
  expect_output(CausalSelfAttention<float>(3, 2, 6, 0, false, 123), testing::kCausalHead);
}

TEST(Golden, G11_G12_two_heads_side_by_side_and_the_weight_split_layer_of_their_rows) {
  WrapperOptions options;
  options.context_length = 6;
  options.seed = 123;
  const auto wrapper = MultiHeadAttentionWrapper<float>::with_head_width(3, 2, 2, options);
  expect_output(wrapper, testing::kTwoHeads);
  expect_output(wrapper.fuse(), testing::kTwoHeads);
}

TEST(Golden, G13_the_weight_split_layer_from_the_seed_alone) {
  MultiHeadAttention<float> layer(3, 2, two_heads());
  expect_output(layer, testing::kMultiHead);
  const auto parameters = layer.parameters();
  ASSERT_EQ(parameters.size(), 5U);
  expect_parameter(parameters[3], "out_proj.weight", {{-.1668, .2270}, {.5000, .1317}});
  expect_parameter(parameters[4], "out_proj.bias", {{.1934, .6825}});
}

TEST(Golden, G13_holds_in_float64_with_the_float32_weights) {
  MultiHeadAttention<float> drawn(3, 2, two_heads());
  MultiHeadAttention<double> layer(3, 2, two_heads());
  layer.load(drawn.state());
  expect_output(layer, testing::kMultiHead);
}

TEST(Golden, G14_the_weights_of_each_head) {
  const Tensor<float, 4> weights = weights_of(MultiHeadAttention<float>(3, 2, two_heads()));
  const auto row = [&](Index head, Index i) { return weights.cview().select(0, 0).select(0, head).slice(0, i, i + 1); };
  expect_rows(row(0, 1), {{.4776, .5224, 0, 0, 0, 0}}, kGoldenTolerance);
  expect_rows(row(0, 5), {{.1649, .1726, .1724, .1625, .1624, .1653}}, kGoldenTolerance);
  expect_rows(row(1, 1), {{.4988, .5012, 0, 0, 0, 0}}, kGoldenTolerance);
  expect_rows(row(1, 5), {{.1625, .1667, .1666, .1691, .1650, .1702}}, kGoldenTolerance);
}

// In the order of parameters(): dWq, dWk, dWv, dWo, dbo.
const std::vector<Rows> kGradients{{{.01511, .02300, .01534}, {.01118, .01738, .01201}},
                                   {{.00407, .01353, -.00109}, {.00026, .00355, -.00158}},
                                   {{.94310, 1.02247, 1.35900}, {1.01039, 1.08477, 1.46166}},
                                   {{-3.32581, -.11108}, {-3.32581, -.11108}},
                                   {{6, 6}}};

TEST(Golden, G15_loss_and_gradients_by_backward_and_by_central_differences) {
  MultiHeadAttention<float> drawn(3, 2, two_heads());
  MultiHeadAttention<double> layer(3, 2, two_heads());
  layer.load(drawn.state());
  const Tensor<double, 3> batch = golden_batch<double>();
  const TensorView<const double, 3> x = batch.cview().slice(0, 0, 1);
  const auto loss = [&] {
    const Tensor<double, 3> out = layer.forward(x);
    return std::accumulate(out.data(), out.data() + out.elements(), 0.0);
  };
  EXPECT_NEAR(loss(), 4.10717, 5e-6);
  Activations<double> saved;
  layer.forward(x, {}, {}, &saved);
  Tensor<double, 3> ones(Shape<3>{1, 6, 2});
  ones.fill(1);
  layer.backward(saved, ones.view(), {});
  auto parameters = layer.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Index rows = static_cast<Index>(kGradients[p].size()), columns = static_cast<Index>(kGradients[p][0].size());
    expect_rows(TensorView<const double, 2>(parameters[p].gradient, {rows, columns}), kGradients[p], 5.1e-6,
                parameters[p].name);
    Tensor<double, 2> differences(Shape<2>{rows, columns});
    for (Index i = 0; i < differences.elements(); ++i) {
      double& value = parameters[p].value[i];
      const double middle = value, step = 1e-5;
      value = middle + step;
      const double above = loss();
      value = middle - step;
      differences.data()[i] = (above - loss()) / (2 * step);
      value = middle;
    }
    expect_rows(differences.cview(), kGradients[p], 5.1e-6, "differences of " + parameters[p].name);
  }
}

TEST(Golden, G16_scores_of_strided_head_views) {
  // (1, tokens 3, heads 2, head_dim 4), seen by head.
  const Tensor<float, 2> stored = matrix<float>({{.2745, .6584, .2775, .8573, .0772, .3565, .1479, .5331},
                                                 {.8993, .0390, .9268, .7388, .4066, .2318, .4545, .9737},
                                                 {.7179, .7058, .9156, .4340, .4606, .5159, .4220, .5786}});
  const TensorView<const float, 3> heads = stored.cview().split(1, 2).transpose(0, 1);
  const Rows diagonals{{1.3208, 2.2150, 2.0402}, {.4391, 1.3737, .9912}};
  for (Index h = 0; h < 2; ++h) {
    Tensor<float, 2> scores(Shape<2>{3, 3});
    linear_forward<float>(heads.select(0, h), heads.select(0, h), {}, scores.view());
    for (Index i = 0; i < 3; ++i) EXPECT_NEAR(scores(i, i), diagonals[h][i], kGoldenTolerance);
  }
}

TEST(Golden, a_gpt2_layer_has_the_published_number_of_parameters) {
  MultiHeadAttentionOptions options;
  options.num_heads = 12;
  EXPECT_EQ(MultiHeadAttention<float>(768, 768, options).parameter_count(), 2360064);
  options.qkv_bias = true;
  EXPECT_EQ(MultiHeadAttention<float>(768, 768, options).parameter_count(), 2362368);
}

}  // namespace
}  // namespace headwise
