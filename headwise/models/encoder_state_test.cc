// SPDX-License-Identifier: Apache-2.0
// The names of an encoder's parameters, and loading by them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/models/encoder.h"
#include "headwise/tensor/errors.h"
#include "tests/support/encoder.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;
using testing::random_encoder;
using testing::Sample;
using testing::small_config;

TEST(EncoderState, has_the_names_of_a_bert_model) {
  Encoder<float> encoder(small_config());
  std::vector<std::string> names;
  Index count = 0;
  for (const auto& p : encoder.parameters()) {
    names.push_back(p.name);
    count += p.elements();
  }
  ASSERT_EQ(names.size(), 5U + 2U * 16U);
  EXPECT_EQ(encoder.parameter_count(), count);
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 21),
            (std::vector<std::string>{"embeddings.word_embeddings.weight",
                                      "embeddings.position_embeddings.weight",
                                      "embeddings.token_type_embeddings.weight",
                                      "embeddings.LayerNorm.weight",
                                      "embeddings.LayerNorm.bias",
                                      "encoder.layer.0.attention.self.query.weight",
                                      "encoder.layer.0.attention.self.query.bias",
                                      "encoder.layer.0.attention.self.key.weight",
                                      "encoder.layer.0.attention.self.key.bias",
                                      "encoder.layer.0.attention.self.value.weight",
                                      "encoder.layer.0.attention.self.value.bias",
                                      "encoder.layer.0.attention.output.dense.weight",
                                      "encoder.layer.0.attention.output.dense.bias",
                                      "encoder.layer.0.attention.output.LayerNorm.weight",
                                      "encoder.layer.0.attention.output.LayerNorm.bias",
                                      "encoder.layer.0.intermediate.dense.weight",
                                      "encoder.layer.0.intermediate.dense.bias",
                                      "encoder.layer.0.output.dense.weight",
                                      "encoder.layer.0.output.dense.bias",
                                      "encoder.layer.0.output.LayerNorm.weight",
                                      "encoder.layer.0.output.LayerNorm.bias"}));
  EXPECT_EQ(names.back(), "encoder.layer.1.output.LayerNorm.bias");
}

TEST(EncoderState, loads_with_and_without_prefix_and_passes_over_the_pooler) {
  Encoder<float> source = random_encoder<float>();
  const Sample sample;
  const Tensor<float, 3> expected = source.forward(sample.inputs());
  for (const std::string prefix : {"", "bert."}) {
    std::vector<NamedTensor> tensors = source.state();
    for (const char* extra : {"pooler.dense.weight", "embeddings.position_ids"}) {
      tensors.push_back(tensors[3]);
      tensors.back().name = extra;
    }
    for (NamedTensor& tensor : tensors) tensor.name = prefix + tensor.name;
    tensors.push_back(tensors[3]);
    tensors.back().name = "cls.predictions.bias";
    Encoder<float> target(small_config());
    EXPECT_FALSE(testing::same_bits(expected, target.forward(sample.inputs())));
    target.load(tensors);
    EXPECT_TRUE(testing::same_bits(expected, target.forward(sample.inputs())));
  }
}

TEST(EncoderState, names_what_does_not_fit) {
  Encoder<float> source = random_encoder<float>();
  Encoder<float> target(small_config());
  std::vector<NamedTensor> tensors = source.state();
  tensors[0].shape = {10, 6};
  EXPECT_EQ(error_text<ShapeError>([&] { target.load(tensors); }),
            "Encoder.load: embeddings.word_embeddings.weight must be (vocab=11, hidden=6), got (10, 6)");
  tensors = source.state();
  tensors.back().name = "encoder.layer.2.output.LayerNorm.bias";
  EXPECT_EQ(error_text<ArgumentError>([&] { target.load(tensors); }),
            "Encoder.load: missing encoder.layer.1.output.LayerNorm.bias; unexpected "
            "encoder.layer.2.output.LayerNorm.bias");
}

}  // namespace
}  // namespace headwise
