// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/load_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "headwise/checkpoints/widen.h"
#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_encoder.h"

namespace headwise {
namespace {

std::vector<float> hidden_of(const Encoder<float>& encoder) {
  Tensor<std::int64_t, 2> ids({1, 4});
  for (Index i = 0; i < 4; ++i) ids(0, i) = i + 1;
  const Tensor<float, 3> hidden = encoder.forward({.ids = ids.cview()});
  return {hidden.data(), hidden.data() + hidden.elements()};
}

class LoadEncoder : public testing::Test {
 protected:
  // Writes the tiny model with its tensors changed, and gives the text that loading it ends in, without the folder.
  std::string refusal(const std::function<void(std::vector<NamedTensor>&)>& change) {
    folder_.write("config.json", tiny_encoder_json());
    std::vector<NamedTensor> tensors = encoder_.state();
    change(tensors);
    write_safetensors(folder_.file("model.safetensors"), tensors);
    return without_folder(message_of([&] { load_encoder(folder_.path()); }));
  }

  std::string config_refusal(const std::string& from, const std::string& to) {
    std::string json = tiny_encoder_json();
    const std::size_t at = json.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    folder_.write("config.json", json.replace(at, from.size(), to));
    return without_folder(message_of([&] { load_encoder(folder_.path()); }));
  }

  std::string without_folder(std::string text) const {
    if (text.starts_with(folder_.path() + "/")) text.erase(0, folder_.path().size() + 1);
    return text;
  }

  TemporaryFolder folder_;
  Encoder<float> encoder_ = tiny_encoder();
};

TEST_F(LoadEncoder, WhatWasSavedComesBackBitForBit) {
  write_tiny_model(folder_);
  EXPECT_EQ(hidden_of(load_encoder(folder_.path())), hidden_of(encoder_));
}

TEST_F(LoadEncoder, ThePrefixAndTheOldEndingsAndTheHeadsOnTopAreKnown) {
  const float zero = 0;
  EXPECT_EQ(refusal([&](std::vector<NamedTensor>& tensors) {
              for (NamedTensor& tensor : tensors) {
                tensor.name = "bert." + tensor.name;
                const auto at = tensor.name.find("LayerNorm.");
                if (at == std::string::npos) continue;
                tensor.name.replace(at, std::string::npos,
                                    tensor.name.ends_with("weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
              }
              for (const char* name : {"bert.pooler.dense.bias", "cls.predictions.bias", "classifier.bias",
                                       "bert.embeddings.position_ids"}) {
                tensors.push_back({name, DType::kFloat32, {1}, reinterpret_cast<const std::byte*>(&zero)});
              }
            }),
            "nothing thrown");
  EXPECT_EQ(hidden_of(load_encoder(folder_.path())), hidden_of(encoder_));
}

TEST_F(LoadEncoder, SixteenBitWeightsAreWidenedExactly) {
  std::vector<std::vector<std::uint16_t>> halves;
  EXPECT_EQ(refusal([&](std::vector<NamedTensor>& tensors) {
              for (NamedTensor& tensor : tensors) {
                std::vector<std::uint16_t> cut;
                for (Index i = 0; i < tensor.elements(); ++i) {
                  std::uint16_t high = 0;
                  std::memcpy(&high, tensor.data + 4 * i + 2, 2);
                  cut.push_back(high);
                }
                halves.push_back(cut);
                tensor.dtype = DType::kBFloat16;
                tensor.data = reinterpret_cast<const std::byte*>(halves.back().data());
              }
            }),
            "nothing thrown");
  Encoder<float> loaded = load_encoder(folder_.path());
  EXPECT_EQ(loaded.parameters()[0].value[1], bfloat16_value(halves[0][1]));
}

TEST_F(LoadEncoder, AMissingTensorIsNamedWithTheClosestNames) {
  EXPECT_EQ(refusal([](auto& tensors) { tensors[5].name = "encoder.layer.0.attention.self.querry.weight"; }),
            "model.safetensors: there is no tensor 'encoder.layer.0.attention.self.query.weight'; closest: "
            "'encoder.layer.0.attention.self.querry.weight', 'encoder.layer.1.attention.self.query.weight', "
            "'encoder.layer.0.attention.self.key.weight'");
  EXPECT_EQ(refusal([](auto& tensors) { tensors.resize(1), tensors[0].name = "x"; }),
            "model.safetensors: there is no tensor 'embeddings.word_embeddings.weight'; it has 1 others");
}

TEST_F(LoadEncoder, AShapeThatConfigContradictsIsNamedWithBoth) {
  EXPECT_EQ(refusal([](auto& tensors) {
              tensors[0].shape = {10, 16};
            }),
            "model.safetensors: tensor 'embeddings.word_embeddings.weight' must be (20, 8) by config.json (vocab_size, "
            "hidden_size), got (10, 16)");
  EXPECT_EQ(refusal([](auto& tensors) {
              tensors[3].shape = {4, 2};
            }),
            "model.safetensors: tensor 'embeddings.LayerNorm.weight' must be (8,) by config.json (hidden_size), got "
            "(4, 2)");
}

TEST_F(LoadEncoder, ALayerMoreThanConfigCountsIsAnError) {
  EXPECT_EQ(refusal([](auto& tensors) {
              for (NamedTensor tensor : std::vector<NamedTensor>(tensors)) {
                const std::size_t at = tensor.name.find("layer.1.");
                if (at == std::string::npos) continue;
                tensor.name.replace(at, 8, "layer.2.");
                tensors.push_back(tensor);
              }
            }),
            "model.safetensors: stores 3 attention layers, but config.json counts 2 (num_hidden_layers)");
  EXPECT_EQ(
      refusal([](auto& tensors) {
        tensors.push_back(tensors[3]);
        tensors.back().name = "encoder.layer.2.output.LayerNorm.weight";
      }),
      "model.safetensors: tensor 'encoder.layer.2.output.LayerNorm.weight' belongs to no part of the encoder that "
      "config.json describes (num_hidden_layers=2)");
}

TEST_F(LoadEncoder, ATypeThatDoesNotWidenIsNamed) {
  EXPECT_EQ(
      refusal([](auto& tensors) { tensors[0].dtype = DType::kInt32; }),
      "model.safetensors: tensor 'embeddings.word_embeddings.weight' is int32; an encoder takes float32, float16 or "
      "bfloat16");
}

TEST_F(LoadEncoder, EveryFaultOfConfigIsNamedWithItsKey) {
  write_tiny_model(folder_);
  EXPECT_EQ(config_refusal("\"bert\"", "\"gpt2\""), "config.json: \"model_type\" is 'gpt2'; headwise loads: bert");
  EXPECT_EQ(config_refusal("\"model_type\"", "\"type\""), "config.json: has no \"model_type\"");
  EXPECT_EQ(config_refusal("\"bert\"", "7"), "config.json: \"model_type\" must be a string, got 7");
  EXPECT_EQ(config_refusal("\"hidden_size\": 8", "\"hidden_size\": -8"),
            "config.json: \"hidden_size\" must be a whole number from 1 to 268435456, got -8");
  EXPECT_EQ(config_refusal("\"hidden_size\": 8", "\"hidden_size\": \"8\""),
            "config.json: \"hidden_size\" must be a whole number from 1 to 268435456, got '8'");
  EXPECT_EQ(config_refusal("\"hidden_size\": 8", "\"hidden_size\": [8]"),
            "config.json: \"hidden_size\" must be a whole number from 1 to 268435456, got an array");
  EXPECT_EQ(config_refusal("\"hidden_size\": 8", "\"hidden_size\": 9"),
            "config.json: Encoder: hidden=9 is not divisible by heads=2; nearest valid heads: 1, 3");
  EXPECT_EQ(config_refusal("\"gelu\"", "\"relu\""), "config.json: Encoder: activation must be \"gelu\", got \"relu\"");
  EXPECT_EQ(config_refusal("\"absolute\"", "\"relative_key\""),
            "config.json: \"position_embedding_type\" is 'relative_key'; headwise runs \"absolute\"");
  EXPECT_EQ(config_refusal("1e-12", "\"small\""), "config.json: \"layer_norm_eps\" must be a number, got 'small'");
  EXPECT_EQ(config_refusal("{", "[{"), "config.json: file ends before its JSON does (byte 275)");
}

TEST_F(LoadEncoder, ALyingConfigCostsNoMemory) {
  write_tiny_model(folder_);
  EXPECT_EQ(config_refusal("\"vocab_size\": 20", "\"vocab_size\": 16000000"),
            "model.safetensors: tensor 'embeddings.word_embeddings.weight' must be (16000000, 8) by config.json "
            "(vocab_size, hidden_size), got (20, 8)");
  EXPECT_EQ(config_refusal("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 16000000"),
            "model.safetensors: there is no tensor 'encoder.layer.2.attention.self.query.weight'; closest: "
            "'encoder.layer.0.attention.self.query.weight', 'encoder.layer.1.attention.self.query.weight', "
            "'encoder.layer.0.attention.self.key.weight'");
}

TEST_F(LoadEncoder, AMissingFolderOrFileIsAMissingFile) {
  EXPECT_THROW(load_encoder(folder_.file("absent")), FileNotFound);
  folder_.write("config.json", tiny_encoder_json());
  EXPECT_EQ(without_folder(message_of([&] { load_encoder(folder_.path()); })), "model.safetensors: no such file");
}

TEST(Widen, Float16AndBFloat16KeepEveryValue) {
  EXPECT_EQ(float16_value(0x3C00), 1.0F);
  EXPECT_EQ(float16_value(0xC000), -2.0F);
  EXPECT_EQ(float16_value(0x7BFF), 65504.0F);
  EXPECT_EQ(float16_value(0x0001), 0x1p-24F);
  EXPECT_EQ(float16_value(0x83FF), -0x1.ff8p-15F);
  EXPECT_TRUE(std::signbit(float16_value(0x8000)));
  EXPECT_EQ(float16_value(0x7C00), INFINITY);
  EXPECT_TRUE(std::isnan(float16_value(0x7E00)));
  EXPECT_EQ(bfloat16_value(0x3FC0), 1.5F);
}

}  // namespace
}  // namespace headwise
