// SPDX-License-Identifier: Apache-2.0
// Rotary positions and windows out of config.json, into layer files and through conversions.
#include "headwise/checkpoints/rotary_facts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "headwise/checkpoints/convert_attention.h"
#include "headwise/checkpoints/load_attention.h"
#include "headwise/io/file_error.h"
#include "tests/support/checkpoint_file.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

RotaryRule rule_in(const std::string& json) { return rotary_of(ConfigFile("config.json", json)); }
std::string rule_refusal(const std::string& json) {
  return message_of([&] { rule_in(json); });
}
std::optional<Index> window_in(const std::string& json, std::optional<Index> number = 0) {
  return window_of(ConfigFile("config.json", json), number);
}
std::string window_refusal(const std::string& json, std::optional<Index> number = 0) {
  return message_of([&] { window_in(json, number); });
}

constexpr RotaryRule kLlama3{.base = 500000,
                             .scaling = RotaryScaling::kLlama3,
                             .factor = 8,
                             .low_freq_factor = 1,
                             .high_freq_factor = 4,
                             .original_context = 8192};

TEST(RotaryFacts, AreReadInTheOlderAndTheNewerForm) {
  EXPECT_EQ(rule_in("{}"), RotaryRule{});
  EXPECT_EQ(rule_in(R"({"rope_theta": 1000000.0, "rope_scaling": null})"), RotaryRule{.base = 1000000});
  const RotaryRule linear{.base = 5, .scaling = RotaryScaling::kLinear, .factor = 2};
  EXPECT_EQ(rule_in(R"({"rope_theta": 5, "rope_scaling": {"type": "linear", "factor": 2}})"), linear);
  EXPECT_EQ(rule_in(R"({"rope_parameters": {"rope_theta": 5, "rope_type": "linear", "factor": 2.0}})"), linear);
  EXPECT_EQ(rule_in(R"({"rope_parameters": {"rope_theta": 7, "rope_type": "default"}})"), RotaryRule{.base = 7});
  EXPECT_EQ(rule_in(R"({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"),
            kLlama3);
}

TEST(RotaryFacts, NameWhatHeadwiseDoesNotCompute) {
  EXPECT_EQ(rule_refusal(R"({"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}})"),
            "config.json: \"rope_parameters\": \"rope_type\" is 'dynamic'; headwise computes default, linear, llama3 "
            "and yarn");
  EXPECT_EQ(rule_refusal(R"({"rope_scaling": {"rope_type": "linear"}})"),
            "config.json: \"rope_scaling\": has no \"factor\"");
  EXPECT_EQ(rule_refusal(R"({"rope_scaling": 3})"), "config.json: \"rope_scaling\": must be an object, got a number");
  EXPECT_EQ(rule_refusal(R"({"partial_rotary_factor": 0.5})"),
            "config.json: \"partial_rotary_factor\" is 0.5; headwise runs 1.0");
}

TEST(RotaryFacts, YarnTakesWhatTheConfigLeavesOutFromThePaper) {
  const RotaryRule plain =
      rule_in(R"({"max_position_embeddings": 64, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})");
  EXPECT_EQ(plain.scaling, RotaryScaling::kYarn);
  EXPECT_EQ(plain.factor, 4);
  EXPECT_EQ(plain.original_context, 64);
  EXPECT_EQ(plain.beta_fast, 32);
  EXPECT_EQ(plain.beta_slow, 1);
  EXPECT_TRUE(plain.rounded);
  EXPECT_NEAR(plain.attention_factor, 0.1 * std::log(4.0) + 1, 1e-15);
  const RotaryRule given = rule_in(R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16,
      "beta_slow": 2, "original_max_position_embeddings": 32, "truncate": false, "attention_factor": 0.5}})");
  EXPECT_EQ(given.original_context, 32);
  EXPECT_EQ(given.beta_fast, 16);
  EXPECT_EQ(given.beta_slow, 2);
  EXPECT_FALSE(given.rounded);
  EXPECT_EQ(given.attention_factor, 0.5);
  const RotaryRule scaled = rule_in(R"({"rope_parameters": {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0,
      "mscale_all_dim": 0.5, "original_max_position_embeddings": 32}})");
  EXPECT_NEAR(scaled.attention_factor, (0.1 * std::log(40.0) + 1) / (0.05 * std::log(40.0) + 1), 1e-15);
}

TEST(RotaryFacts, WindowsAreThoseThatTheFamilyHas) {
  EXPECT_EQ(window_in(R"({"model_type": "mistral", "sliding_window": 4096})"), 4095);
  EXPECT_EQ(window_in(R"({"model_type": "mistral", "sliding_window": null})"), std::nullopt);
  EXPECT_EQ(window_in(R"({"model_type": "llama", "sliding_window": 4096})"), std::nullopt);
  const std::string qwen = R"({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": )";
  EXPECT_EQ(window_in(qwen + "false}"), std::nullopt);
  EXPECT_EQ(window_in(qwen + R"(true, "max_window_layers": 2})", 1), std::nullopt);
  EXPECT_EQ(window_in(qwen + R"(true, "max_window_layers": 2})", 2), 7);
  const std::string listed = qwen + R"(true, "max_window_layers": 9, "layer_types": ["full_attention",
                                         "sliding_attention", "chunked"]})";
  EXPECT_EQ(window_in(listed, 0), std::nullopt);
  EXPECT_EQ(window_in(listed, 1), 7);
  EXPECT_EQ(window_refusal(listed, 2),
            "config.json: \"layer_types\" of layer 2 must be \"full_attention\" or \"sliding_attention\"");
  EXPECT_EQ(window_refusal(listed, 3),
            "config.json: \"layer_types\" tells the windows of 3 layers, and the layer is not one of them");
  EXPECT_EQ(window_refusal(qwen + R"(true, "max_window_layers": 2})", std::nullopt),
            "config.json: \"max_window_layers\" is given, and the layer has no number");
  EXPECT_EQ(window_refusal(R"({"model_type": "phi3", "sliding_window": 8})"),
            "config.json: \"sliding_window\" is given, and headwise does not know what it means in 'phi3'");
}

class RotaryLayerFile : public testing::Test {
 protected:
  std::string refusal(const std::string& to) {
    return message_of([&] { convert_attention(folder_.path(), folder_.file("out"), {.to = to}); });
  }

  void expect_llama(const std::string& path) {
    const AnyLayer<float> layer = load_attention<float>(path);
    const AttentionConfig& config = std::get<0>(layer).config();
    EXPECT_EQ(config.rotary, (RotaryRule{.base = 123456.789}));
    EXPECT_EQ(config.window_left, 2);
    EXPECT_EQ(std::get<0>(layer).sizes().kv_heads, 1);
  }

  TemporaryFolder folder_;
};

TEST_F(RotaryLayerFile, AModelsLayerKeepsItsRuleThroughFilesAndConversions) {
  write_checkpoint(folder_.file("model.safetensors"), proj_layer("model.layers.0.self_attn.", 4, 2));
  folder_.write("config.json", R"({"model_type": "mistral", "num_attention_heads": 2, "num_key_value_heads": 1,
                                   "hidden_size": 4, "rope_theta": 123456.789, "sliding_window": 3})");
  expect_llama(folder_.path());
  AnyLayer<float> layer = load_attention<float>(folder_.path());
  save_layer(folder_.file("layer"), layer);
  expect_llama(folder_.file("layer"));
  for (const char* to : {"book", "separate"}) {
    convert_attention(folder_.path(), folder_.file(to), {.to = to});
    expect_llama(folder_.file(to));
    convert_attention(folder_.file(to), folder_.file("back"), {.to = "book"});
    expect_llama(folder_.file("back"));
  }
  EXPECT_EQ(message_of([&] { load_attention<float>(folder_.path(), {}, {.rotary = kLlama3}); }),
            "load: rotary=(half_split, rotary_dim=head_dim, base=500000, llama3, factor=8, low_freq_factor=1, "
            "high_freq_factor=4, original_context=8192) was given, but " +
                folder_.file("config.json") + " says (half_split, rotary_dim=head_dim, base=123456.789)");
}

TEST_F(RotaryLayerFile, EveryPartOfARuleComesBackExactly) {
  RotaryRule rule = kLlama3;
  rule.style = RotaryStyle::kInterleaved;
  rule.rotary_dim = 2;
  rule.base = 1.1;
  rule.factor = 1.0 / 0.3;
  rule.low_freq_factor = 0.1;
  AnyLayer<double> layer = MultiHeadAttention<double>(4, 8, {.num_heads = 2, .seed = 1, .rotary = rule});
  save_layer(folder_.file("layer"), layer);
  const AnyLayer<double> back = load_layer<double>(folder_.file("layer"));
  EXPECT_EQ(std::get<0>(back).config().rotary, rule);
  EXPECT_EQ(std::get<0>(back).config().window_left, std::nullopt);
}

TEST_F(RotaryLayerFile, WhatHoldsNoPositionsAndNoWindowIsRefused) {
  AnyLayer<float> layer = MultiHeadAttention<float>(4, 4, {.num_heads = 2, .seed = 1, .rotary = RotaryRule{}});
  save_layer(folder_.file("model.safetensors"), layer);
  for (const std::string to : {"wrapper", "seed", "torch", "qkv", "gpt2", "nanogpt"}) {
    EXPECT_EQ(refusal(to), "convert: " + to + " has no rotary positions; the layer has");
  }
  layer = MultiHeadAttention<float>(4, 4, {.num_heads = 2, .seed = 1, .window_left = 1});
  save_layer(folder_.file("model.safetensors"), layer);
  EXPECT_EQ(refusal("qkv"), "convert: qkv has no window; the layer has one");
  write_checkpoint(folder_.file("model.safetensors"), proj_layer("layers.0.self_attn.", 4, 2));
  const AttentionChoice llama{.family = "llama"};
  EXPECT_EQ(message_of([&] { load_attention<float>(folder_.path(), llama, {.num_heads = 2}); }),
            "load: rotary is neither stored in " + folder_.file("model.safetensors") + " nor given");
  EXPECT_EQ(message_of([&] {
              convert_attention(folder_.path(), folder_.file("out"), {.to = "book", .from = llama, .num_heads = 2});
            }),
            "convert: rotary is needed for book, and no file says it");
  write_checkpoint(folder_.file("cut"),
                   {{"W_query.weight", {4, 4}}, {"W_key.weight", {4, 4}}, {"W_value.weight", {4, 4}}},
                   {{"format", "headwise-layer"},
                    {"version", "1"},
                    {"kind", "CausalSelfAttention"},
                    {"dropout", "0"},
                    {"rotary", "half_split"}});
  EXPECT_EQ(message_of([&] { load_layer<float>(folder_.file("cut")); }),
            folder_.file("cut") + ": CausalSelfAttention has no rotary positions; MultiHeadAttention has");
  write_checkpoint(folder_.file("bad"),
                   {{"W_query.weight", {4, 4}}, {"W_key.weight", {4, 4}}, {"W_value.weight", {4, 4}}},
                   {{"format", "headwise-layer"}, {"version", "1"}, {"rotary", "spiral"}});
  EXPECT_EQ(message_of([&] { load_layer<float>(folder_.file("bad")); }),
            folder_.file("bad") + ": metadata 'rotary' must be half_split or interleaved, got 'spiral'");
}

}  // namespace
}  // namespace headwise
