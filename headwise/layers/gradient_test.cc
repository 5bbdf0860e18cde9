// SPDX-License-Identifier: Apache-2.0
// backward against central differences of the forward, in double.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "headwise/layers/causal_self_attention.h"
#include "headwise/layers/multi_head_attention.h"
#include "headwise/layers/multi_head_attention_layer.h"
#include "headwise/layers/multi_head_attention_wrapper.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::random_tensor;

constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-8;

// One layer, its inputs, and the loss sum(grad_out * out).
struct Experiment {
  AttentionLayer<double> layer;
  Tensor<double, 3> x, keys_values;  // keys_values may be empty
  ForwardOptions<double> options;
  Tensor<double, 4> bias;
  Tensor<double, 1> slopes, sinks;

  Experiment(const AttentionLayer<double>& copied, Shape<3> shape) : layer(copied) {
    x = random_tensor<double, 3>(shape, 11);
    // Initial biases of some schemes are zero; no parameter should stand at a special value.
    std::uint64_t seed = 40;
    for (Parameter<double>& parameter : layer.parameters()) {
      TorchGenerator(++seed).fill_uniform(parameter.values(), -0.8, 0.8);
    }
  }

  Tensor<double, 3> forward(Activations<double>* saved = nullptr) {
    if (bias) options.rule.bias = bias.cview();
    if (slopes) options.rule.alibi_slopes = slopes.cview();
    if (sinks) options.rule.sinks = sinks.cview();
    return layer.forward(x.view(), keys_values.cview(), options, saved);
  }

  void expect_derivative(double* value, const double* gradient, Index count, const Tensor<double, 3>& grad_out,
                         const std::string& what) {
    const auto loss = [&] {
      const Tensor<double, 3> out = forward();
      double sum = 0;
      for (Index i = 0; i < out.elements(); ++i) sum += out.data()[i] * grad_out.data()[i];
      return sum;
    };
    for (Index i = 0; i < count; ++i) {
      const double middle = value[i];
      value[i] = middle + kStep;
      const double above = loss();
      value[i] = middle - kStep;
      const double below = loss();
      value[i] = middle;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), kTolerance) << what << "[" << i << "]";
    }
  }

  void run() {
    Activations<double> saved;
    const Tensor<double, 3> out = forward(&saved);
    const Tensor<double, 3> grad_out = random_tensor<double, 3>(out.shape(), 12);
    Tensor<double, 3> grad_x(x.shape()), grad_keys_values;
    grad_x.fill(777);  // overwritten, not added to
    if (keys_values) grad_keys_values = Tensor<double, 3>(keys_values.shape());
    if (keys_values) grad_keys_values.fill(777);
    Tensor<double, 4> grad_bias(bias);
    Tensor<double, 1> grad_slopes(slopes), grad_sinks(sinks);
    layer.zero_grad();
    layer.backward(saved, grad_out.view(), grad_x.view(), grad_keys_values.view(),
                   {grad_bias.view(), grad_slopes.view(), grad_sinks.view()});
    expect_derivative(x.data(), grad_x.data(), x.elements(), grad_out, "x");
    expect_derivative(keys_values.data(), grad_keys_values.data(), keys_values.elements(), grad_out, "keys_values");
    expect_derivative(bias.data(), grad_bias.data(), bias.elements(), grad_out, "bias");
    expect_derivative(slopes.data(), grad_slopes.data(), slopes.elements(), grad_out, "alibi_slopes");
    expect_derivative(sinks.data(), grad_sinks.data(), sinks.elements(), grad_out, "sinks");
    for (Parameter<double>& parameter : layer.parameters()) {
      expect_derivative(parameter.value, parameter.gradient, parameter.elements(), grad_out, parameter.name);
    }
  }

  void drop(std::uint64_t call) {
    options.dropout.training = true;
    options.dropout.seed = 99;
    options.dropout.call = call;
  }
};

MultiHeadAttentionOptions options_of(Index heads) {
  MultiHeadAttentionOptions options;
  options.num_heads = heads;
  options.seed = 3;
  return options;
}

TEST(Gradient, of_one_causal_head_with_dropout) {
  Experiment experiment(CausalSelfAttention<double>(3, 2, 6, 0.3, true, 3), {2, 5, 3});
  experiment.drop(4);
  experiment.run();
}

TEST(Gradient, of_the_wrapper_with_and_without_output_projection) {
  for (const bool out_proj : {false, true}) {
    WrapperOptions options;
    options.qkv_bias = true;
    options.out_proj = out_proj;
    options.dropout = 0.25;
    Experiment experiment(MultiHeadAttentionWrapper<double>::with_head_width(3, 2, 3, options), {2, 4, 3});
    experiment.drop(1);
    experiment.run();
  }
}

TEST(Gradient, of_the_weight_split_layer_with_dropout_and_all_biases) {
  MultiHeadAttentionOptions options = options_of(2);
  options.qkv_bias = true;
  options.dropout = 0.3;
  Experiment experiment(MultiHeadAttention<double>(5, 4, options), {2, 4, 5});
  experiment.drop(2);
  experiment.run();
}

TEST(Gradient, of_the_first_seeds_layer_without_a_mask) {
  Experiment experiment(MultiHeadAttentionLayer<double>(3, 6, {}, 0.2, 3, true, false, 5), {1, 4, 3});
  experiment.drop(0);
  experiment.run();
}

TEST(Gradient, where_query_heads_share_key_heads_and_the_head_width_is_free) {
  MultiHeadAttentionOptions options = options_of(4);
  options.num_kv_heads = 2;
  options.head_dim = 3;
  options.out_bias = false;
  Experiment(MultiHeadAttention<double>(5, 7, options), {2, 4, 5}).run();
}

TEST(Gradient, of_cross_attention_reaches_both_inputs) {
  MultiHeadAttentionOptions options = options_of(2);
  options.causal = false;
  options.qkv_bias = true;
  options.dropout = 0.3;
  Experiment experiment(MultiHeadAttention<double>(3, 4, options), {2, 3, 3});
  experiment.keys_values = random_tensor<double, 3>({2, 5, 3}, 21);
  experiment.drop(1);
  experiment.run();
}

TEST(Gradient, of_causal_cross_attention_with_a_stated_alignment) {
  Experiment experiment(MultiHeadAttention<double>(3, 4, options_of(2)), {2, 3, 3});
  experiment.keys_values = random_tensor<double, 3>({2, 5, 3}, 21);
  experiment.options.visibility.alignment = Alignment::kLowerRight;
  experiment.run();
}

TEST(Gradient, under_a_mask_lengths_and_a_bias_with_rows_that_see_nothing) {
  MultiHeadAttentionOptions options = options_of(2);
  options.dropout = 0.2;
  Experiment experiment(MultiHeadAttention<double>(3, 4, options), {2, 5, 3});
  Tensor<bool, 4> mask(Shape<4>{1, 2, 5, 5});
  for (Index i = 0; i < mask.elements(); ++i) mask.data()[i] = i % 3 != 0;
  mask(0, 0, 0, 0) = false;  // head 0, row 0 sees no key
  const Index lengths[] = {5, 3};
  experiment.options.visibility.mask = mask.cview();
  experiment.options.visibility.kv_lengths = lengths;
  experiment.bias = random_tensor<double, 4>({1, 2, 5, 5}, 22);
  experiment.drop(7);
  experiment.run();
}

TEST(Gradient, of_softcap_alibi_and_sinks) {
  Experiment experiment(MultiHeadAttention<double>(3, 4, options_of(2)), {1, 5, 3});
  experiment.options.rule.softcap = 0.7;
  experiment.options.visibility.window_left = 2;
  experiment.slopes = random_tensor<double, 1>({2}, 23);
  experiment.sinks = random_tensor<double, 1>({2}, 24);
  experiment.run();
}

TEST(Gradient, through_rotary_positions_of_both_styles_and_a_window) {
  for (const RotaryStyle style : {RotaryStyle::kHalfSplit, RotaryStyle::kInterleaved}) {
    MultiHeadAttentionOptions options = options_of(4);
    options.num_kv_heads = 2;
    options.head_dim = 6;
    options.rotary = RotaryRule{.style = style, .rotary_dim = 4, .base = 20};
    options.window_left = 2;
    Experiment experiment(MultiHeadAttention<double>(5, 7, options), {2, 5, 5});
    const Index offsets[] = {1, 3};
    experiment.options.visibility.alignment = Alignment::kOffset;
    experiment.options.visibility.query_offset = offsets;
    experiment.run();
  }
}

TEST(Gradient, of_sizes_one) {
  MultiHeadAttentionOptions options = options_of(1);
  options.qkv_bias = true;
  Experiment(MultiHeadAttention<double>(1, 1, options), {1, 1, 1}).run();
}

TEST(Gradient, is_that_of_independent_biases) {
  AttentionConfig config;
  config.d_in = 3;
  config.d_out = 4;
  config.num_heads = 2;
  config.key_bias = true;
  config.out_bias = false;
  AttentionLayer<double> layer(config, {});
  layer.initialize(Initialization::kTorchLinear, 3);
  const auto parameters = layer.parameters();
  ASSERT_EQ(parameters.size(), 5U);
  EXPECT_EQ(parameters[2].name, "W_key.bias");
  EXPECT_EQ(layer.parameter_count(), 3 * 4 * 3 + 4 + 4 * 4);
  Experiment(layer, {2, 3, 3}).run();
}

TEST(Gradient, adds_up_over_two_backwards_and_starts_again_after_zero_grad) {
  MultiHeadAttention<double> layer(3, 4, options_of(2));
  const Tensor<double, 3> x = random_tensor<double, 3>({2, 5, 3}, 1), grad = random_tensor<double, 3>({2, 5, 4}, 2);
  Activations<double> saved;
  layer.forward(x.view(), {}, {}, &saved);
  Tensor<double, 3> grad_x(x.shape()), again(x.shape());
  layer.backward(saved, grad.view(), grad_x.view());
  std::vector<std::vector<double>> once;
  for (auto& p : layer.parameters()) once.emplace_back(p.gradients().begin(), p.gradients().end());
  layer.backward(saved, grad.view(), again.view());
  EXPECT_TRUE(testing::same_bits(grad_x, again));
  const auto parameters = layer.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    for (Index i = 0; i < parameters[p].elements(); ++i) {
      EXPECT_NEAR(parameters[p].gradient[i], 2 * once[p][i], 1e-12);
    }
  }
  layer.zero_grad();
  for (auto& p : layer.parameters()) {
    for (double value : p.gradients()) EXPECT_EQ(value, 0);
  }
}

TEST(Gradient, takes_any_strides) {
  MultiHeadAttention<double> layer(3, 4, options_of(2));
  const Tensor<double, 3> stored_x = random_tensor<double, 3>({3, 5, 2}, 1);  // (d_in, seq, batch)
  const TensorView<const double, 3> x = stored_x.cview().transpose(0, 2);
  const Tensor<double, 3> stored_grad = random_tensor<double, 3>({4, 5, 2}, 2);
  const TensorView<const double, 3> grad = stored_grad.cview().transpose(0, 2);
  Tensor<double, 3> stored_grad_x(Shape<3>{3, 5, 2}), expected_grad_x(Shape<3>{2, 5, 3});
  Activations<double> saved;
  const Tensor<double, 3> out = layer.forward(x, {}, {}, &saved);
  layer.backward(saved, grad, stored_grad_x.view().transpose(0, 2));
  EXPECT_TRUE(testing::same_bits(out, layer.forward(Tensor<double, 3>(x).view(), {}, {}, &saved)));
  layer.backward(saved, Tensor<double, 3>(grad).view(), expected_grad_x.view());
  EXPECT_TRUE(testing::same_bits(Tensor<double, 3>(stored_grad_x.cview().transpose(0, 2)), expected_grad_x));
}

}  // namespace
}  // namespace headwise
