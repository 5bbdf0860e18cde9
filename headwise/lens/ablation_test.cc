// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/ablation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "headwise/tensor/errors.h"
#include "tests/support/file_bytes.h"
#include "tests/support/tiny_encoder.h"

namespace headwise {
namespace {

std::vector<TokenSequence> sentences() { return {{{1, 5, 9, 2}, {}}, {{1, 7, 2}, {}}}; }

std::vector<float> numbers_of(Encoder<float>& encoder) {
  std::vector<float> numbers;
  for (const Parameter<float>& parameter : encoder.parameters()) {
    numbers.insert(numbers.end(), parameter.values().begin(), parameter.values().end());
  }
  return numbers;
}

Tensor<float, 3> hidden_of(const Encoder<float>& encoder) {
  const std::vector<std::int64_t> ids{1, 5, 9, 2};
  return encoder.forward({TensorView<const std::int64_t, 2>(ids.data(), {1, 4})});
}

TEST(Ablation, a_scale_of_1_leaves_the_bits_alone_and_0_does_not) {
  Encoder<float> encoder = tiny_encoder(), same = tiny_encoder(), without = tiny_encoder();
  scale_heads(same, std::vector<HeadScale>{{0, 1, 1.0}});
  scale_heads(without, std::vector<HeadScale>{{0, 1, 0.0}});
  const Tensor<float, 3> right = hidden_of(encoder), kept = hidden_of(same), other = hidden_of(without);
  EXPECT_EQ(std::memcmp(right.data(), kept.data(), sizeof(float) * right.elements()), 0);
  EXPECT_NE(std::memcmp(right.data(), other.data(), sizeof(float) * right.elements()), 0);
}

TEST(Ablation, a_head_that_is_off_has_no_say_whatever_its_values) {
  Encoder<float> encoder = tiny_encoder(), changed = tiny_encoder();
  for (const Parameter<float>& parameter : changed.parameters()) {
    if (parameter.name != "encoder.layer.1.attention.self.value.weight") continue;
    for (Index i = 0; i < 4 * 8; ++i) parameter.value[i] += 3;  // the rows of head 0
  }
  const std::vector<HeadScale> off{{1, 0, 0}};
  const Tensor<float, 3> before = hidden_of(changed);
  scale_heads(encoder, off);
  scale_heads(changed, off);
  const Tensor<float, 3> a = hidden_of(encoder), b = hidden_of(changed);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), sizeof(float) * a.elements()), 0);
  EXPECT_NE(std::memcmp(before.data(), b.data(), sizeof(float) * a.elements()), 0);
}

TEST(Ablation, ranking_is_by_the_effect_of_each_head_alone_and_leaves_the_model_as_it_was) {
  Encoder<float> encoder = tiny_encoder();
  const std::vector<float> before = numbers_of(encoder);
  const std::vector<HeadEffect> ranked = rank_heads(encoder, sentences());
  ASSERT_EQ(ranked.size(), 4U);
  for (std::size_t n = 0; n < ranked.size(); ++n) {
    const std::vector<HeadScale> off{{ranked[n].layer, ranked[n].head, 0}};
    EXPECT_EQ(effect_of(encoder, sentences(), off), ranked[n].effect);
    EXPECT_GT(ranked[n].effect, 0);
    EXPECT_LE(ranked[n].effect, ranked[n == 0 ? 0 : n - 1].effect);
  }
  EXPECT_EQ(effect_of(encoder, sentences(), std::vector<HeadScale>{{0, 0, 0}, {0, 0, 1}, {0, 1, 1}}),
            effect_of(encoder, sentences(), std::vector<HeadScale>{{0, 0, 0}}));
  EXPECT_EQ(numbers_of(encoder), before);
}

TEST(Ablation, a_decoder_has_heads_too) {
  Decoder<float> decoder({.layers = 2, .hidden = 8, .heads = 2, .vocab = 20, .positions = 16});
  TorchGenerator generator(4);
  for (const Parameter<float>& parameter : decoder.parameters()) generator.fill_normal(parameter.values(), 0, 0.5);
  const std::vector<HeadEffect> ranked = rank_heads(decoder, sentences());
  ASSERT_EQ(ranked.size(), 4U);
  EXPECT_GT(ranked.back().effect, 0);
}

TEST(Ablation, places_that_are_not_there_are_refused) {
  Encoder<float> encoder = tiny_encoder();
  const auto message = [&](const HeadScale& scale) {
    return message_of([&] { scale_heads(encoder, std::vector<HeadScale>{scale}); });
  };
  EXPECT_EQ(message({2, 0, 0}), "ablation: layer must be in 0..1, got 2");
  EXPECT_EQ(message({0, -1, 0}), "ablation: head must be in 0..1, got -1");
  EXPECT_EQ(message({0, 0, NAN}), "ablation: scale must be finite, got nan");
}

}  // namespace
}  // namespace headwise
