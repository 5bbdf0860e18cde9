// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/initialization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

MultiHeadAttention<float> layer_of(const char* init, bool qkv_bias = true) {
  MultiHeadAttentionOptions options;
  options.num_heads = 2;
  options.init = init;
  options.qkv_bias = qkv_bias;
  options.seed = 17;
  return {6, 6, options};
}

std::vector<float> drawn(TorchGenerator& generator, Index count, double bound) {
  std::vector<float> values(count);
  generator.fill_uniform(std::span<float>(values), -bound, bound);
  return values;
}

void expect_values(const Parameter<float>& parameter, const std::string& name, const std::vector<float>& expected) {
  EXPECT_EQ(parameter.name, name);
  EXPECT_EQ(std::vector<float>(parameter.values().begin(), parameter.values().end()), expected) << name;
}

// What torch 2.13 on a CPU holds after manual_seed(42) and Linear(5, 3).
TEST(Initialization, torch_linear_has_the_bits_of_torch) {
  TorchGenerator generator(42);
  std::vector<float> weight(15), bias(3);
  draw_torch_linear<float>(generator, 5, weight, bias);
  EXPECT_EQ(weight, (std::vector<float>{0x1.5e1e3p-2, 0x1.7c1972p-2, -0x1.ad2322p-4, 0x1.a4accep-2, -0x1.9159dep-4,
                                        0x1.71a336p-4, -0x1.bde846p-3, 0x1.0cf1b4p-2, 0x1.93b31ep-2, -0x1.4ff66ep-2,
                                        0x1.8e0ba8p-2, 0x1.56d6p-4, 0x1.5255c8p-2, 0x1.f028eep-5, 0x1.b9a206p-3}));
  EXPECT_EQ(bias, (std::vector<float>{-0x1.02a1cp-4, 0x1.61064ep-2, 0x1.0ec122p-4}));
  TorchGenerator again(42);
  std::vector<double> wide(15), wide_bias(3);
  draw_torch_linear<double>(again, 5, wide, wide_bias);
  EXPECT_EQ(wide[0], -0x1.94aef3eadde28p-2);
  EXPECT_EQ(wide[3], -0x1.99c9f4f4e3b51p-2);
  EXPECT_EQ(wide_bias, (std::vector<double>{0x1.9beb73ff0ef6dp-4, -0x1.793f5f456d39cp-2, 0x1.7085b8d5c6c8ap-3}));
}

// The same after manual_seed(7) and nn.MultiheadAttention(6, 2).
TEST(Initialization, torch_mha_has_the_bits_of_torch) {
  MultiHeadAttentionOptions options;
  options.num_heads = 2;
  options.init = "torch_mha";
  options.seed = 7;
  MultiHeadAttention<float> layer(6, 6, options);
  const auto parameters = layer.parameters();
  const auto query = parameters[0].values(), value = parameters[2].values(), out = parameters[3].values();
  EXPECT_EQ(std::vector<float>(query.begin(), query.begin() + 3),
            (std::vector<float>{-0x1.1141p-2, 0x1.b9c488p-2, 0x1.d484ep-2}));
  EXPECT_EQ(std::vector<float>(value.end() - 2, value.end()), (std::vector<float>{0x1.a6ca98p-2, 0x1.185d4p-6}));
  EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 2), (std::vector<float>{0x1.d32cf4p-6, -0x1.f7a824p-3}));
  EXPECT_EQ(out.back(), 0x1.7ff294p-2F);
}

TEST(Initialization, torch_linear_draws_each_weight_and_its_bias_in_order_of_construction) {
  auto layer = layer_of("torch_linear");
  TorchGenerator generator(17);
  const auto parameters = layer.parameters();
  ASSERT_EQ(parameters.size(), 8U);
  const char* const names[] = {"W_query", "W_key", "W_value", "out_proj"};
  const double bound = 1 / std::sqrt(6.0);
  for (std::size_t i = 0; i < 4; ++i) {
    expect_values(parameters[2 * i], names[i] + std::string(".weight"), drawn(generator, 36, bound));
    expect_values(parameters[2 * i + 1], names[i] + std::string(".bias"), drawn(generator, 6, bound));
  }
}

TEST(Initialization, torch_mha_draws_the_output_projection_first_and_then_the_stacked_input_projection) {
  auto layer = layer_of("torch_mha");
  TorchGenerator generator(17);
  const std::vector<float> out = drawn(generator, 36, 1 / std::sqrt(6.0));
  drawn(generator, 6, 1 / std::sqrt(6.0));  // the output bias is drawn, then set to zero
  const std::vector<float> stacked = drawn(generator, 108, std::sqrt(6.0 / (6 + 18)));
  const auto parameters = layer.parameters();
  for (std::size_t i = 0; i < 3; ++i) {
    expect_values(parameters[2 * i], parameters[2 * i].name,
                  {stacked.begin() + 36 * i, stacked.begin() + 36 * (i + 1)});
    expect_values(parameters[2 * i + 1], parameters[2 * i + 1].name, std::vector<float>(6));
  }
  expect_values(parameters[6], "out_proj.weight", out);
  expect_values(parameters[7], "out_proj.bias", std::vector<float>(6));
}

TEST(Initialization, gpt2_draws_normal_weights_of_deviation_a_fiftieth_and_zero_biases) {
  MultiHeadAttentionOptions options;
  options.num_heads = 4;
  options.init = "gpt2";
  options.qkv_bias = true;
  options.seed = 5;
  MultiHeadAttention<double> layer(64, 64, options);
  for (const Parameter<double>& parameter : layer.parameters()) {
    double sum = 0, squares = 0;
    for (double value : parameter.values()) {
      sum += value;
      squares += value * value;
    }
    const double count = static_cast<double>(parameter.elements());
    if (parameter.shape.size() == 1) {
      EXPECT_EQ(squares, 0) << parameter.name;
    } else {
      EXPECT_NEAR(sum / count, 0, 5 * 0.02 / std::sqrt(count)) << parameter.name;
      EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.001) << parameter.name;
    }
  }
}

TEST(Initialization, has_three_names_and_lists_them_for_any_other) {
  for (const char* name : {"torch_linear", "torch_mha", "gpt2"}) {
    EXPECT_EQ(initialization_name(initialization_by_name("x", name)), name);
  }
  EXPECT_EQ(testing::error_text<ArgumentError>([] { layer_of("xavier"); }),
            "MultiHeadAttention: init must be one of \"torch_linear\", \"torch_mha\", \"gpt2\", got \"xavier\"");
}

}  // namespace
}  // namespace headwise
