// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/attention_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "headwise/lens/head_summary.h"
#include "headwise/lens/trace_file.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_encoder.h"

namespace headwise {
namespace {

using testing::ElementsAre;

std::vector<TokenSequence> two_sentences() {
  return {{{1, 5, 9, 2}, {"[CLS]", "the", "cat", "[SEP]"}}, {{1, 7, 2}, {"[CLS]", "it", "[SEP]"}}};
}

// One layer's weights as the model itself computes them.
Tensor<float, 4> weights_in_model(const Encoder<float>& encoder, const std::vector<std::int64_t>& ids, Index layer) {
  const Index seq = static_cast<Index>(ids.size());
  Tensor<float, 4> weights({1, encoder.config().heads, seq, seq});
  LayerTrace<float> trace;
  trace.layer = layer;
  trace.attention.weights = weights.view();
  EncoderInputs inputs;
  inputs.ids = TensorView<const std::int64_t, 2>(ids.data(), {1, seq});
  encoder.forward(inputs, std::vector{trace});
  return weights;
}

TEST(AttentionTrace, GivesEveryHeadsWeightsBackBitForBit) {
  const Encoder<float> encoder = tiny_encoder();
  const auto sentences = two_sentences();
  const AttentionTrace trace = trace_encoder(encoder, sentences);
  for (Index s = 0; s < 2; ++s) {
    const Index seq = trace.sentences[s].seq();
    for (Index layer = 0; layer < 2; ++layer) {
      const Tensor<float, 4> expected = weights_in_model(encoder, sentences[s].ids, layer);
      Tensor<float, 3> all({2, seq, seq});
      recompute_weights(trace, s, layer, all.view());
      for (Index head = 0; head < 2; ++head) {
        const Tensor<float, 2> one = head_weights(trace, s, layer, head);
        for (Index i = 0; i < seq; ++i) {
          for (Index j = 0; j < seq; ++j) {
            EXPECT_EQ(all(head, i, j), expected(0, head, i, j));
            EXPECT_EQ(one(i, j), expected(0, head, i, j));
          }
        }
      }
    }
  }
}

TEST(AttentionTrace, WithoutTokensTheIdsNameThemselves) {
  const AttentionTrace trace = trace_encoder(tiny_encoder(), std::vector<TokenSequence>{{{1, 17}, {}}});
  EXPECT_THAT(trace.sentences[0].tokens, ElementsAre("1", "17"));
}

TEST(AttentionTrace, SentencesThatDoNotFitAreRefused) {
  const Encoder<float> encoder = tiny_encoder();
  const auto refusal = [&](std::vector<TokenSequence> sentences) {
    return message_of([&] { trace_encoder(encoder, sentences); });
  };
  EXPECT_EQ(refusal({{{}, {}}}), "trace: sentence 0 has no ids");
  EXPECT_EQ(refusal({{{1}, {}}, {{1, 2}, {"one"}}}), "trace: sentence 1 has 2 ids and 1 tokens");
  EXPECT_EQ(refusal({{{20}, {}}}), "Encoder: ids must be in 0..19, got 20 at (0, 0)");
  const AttentionTrace trace = trace_encoder(encoder, two_sentences());
  EXPECT_EQ(message_of([&] { head_weights(trace, 2, 0, 0); }), "trace: sentence must be in 0..1, got 2");
  EXPECT_EQ(message_of([&] { head_weights(trace, 0, -1, 0); }), "trace: layer must be in 0..1, got -1");
  EXPECT_EQ(message_of([&] { head_weights(trace, 0, 0, 2); }), "trace: head must be in 0..1, got 2");
}

TEST(HeadSummary, IsTheMeanOverEveryTokenOfEverySentence) {
  const Encoder<float> encoder = tiny_encoder();
  const auto sentences = two_sentences();
  const AttentionTrace trace = trace_encoder(encoder, sentences);
  const std::vector<HeadSummary> heads = summarize_heads(trace);
  ASSERT_EQ(heads.size(), 4U);
  for (const HeadSummary& head : heads) {
    HeadSummary expected;
    expected.separator = 0;
    StrongestPair strongest;
    for (Index s = 0; s < 2; ++s) {
      const Tensor<float, 4> weights = weights_in_model(encoder, sentences[s].ids, head.layer);
      const Index seq = weights.size(2);
      for (Index i = 0; i < seq; ++i) {
        for (Index j = 0; j < seq; ++j) {
          const double weight = weights(0, head.head, i, j);
          expected.entropy -= weight * std::log(weight) / 7;
          if (i == j) expected.self += weight / 7;
          if (i == j + 1) expected.previous += weight / 7;
          if (i + 1 == j) expected.next += weight / 7;
          if (j == 0) expected.first += weight / 7;
          if (j == seq - 1) *expected.separator += weight / 7;
          if (weight > strongest.weight) strongest = {s, i, j, weight};
        }
      }
    }
    EXPECT_NEAR(head.entropy, expected.entropy, 1e-5);
    EXPECT_NEAR(head.self, expected.self, 1e-6);
    EXPECT_NEAR(head.previous, expected.previous, 1e-6);
    EXPECT_NEAR(head.next, expected.next, 1e-6);
    EXPECT_NEAR(head.first, expected.first, 1e-6);
    ASSERT_TRUE(head.separator && head.strongest);
    EXPECT_NEAR(*head.separator, *expected.separator, 1e-6);
    EXPECT_EQ(head.strongest->sentence, strongest.sentence);
    EXPECT_EQ(head.strongest->query, strongest.query);
    EXPECT_EQ(head.strongest->key, strongest.key);
    EXPECT_EQ(head.strongest->weight, strongest.weight);
  }
}

TEST(HeadSummary, OneLayerAloneSaysTheSame) {
  const AttentionTrace trace = trace_encoder(tiny_encoder(), two_sentences());
  const auto all = summarize_heads(trace), one = summarize_heads(trace, 1);
  ASSERT_EQ(one.size(), 2U);
  EXPECT_EQ(one[0].layer, 1);
  EXPECT_EQ(one[1].entropy, all[3].entropy);
}

TEST(HeadSummary, WithoutASeparatorThereIsNoShareOfOne) {
  const AttentionTrace trace = trace_encoder(tiny_encoder(), std::vector<TokenSequence>{{{1, 3}, {}}});
  EXPECT_FALSE(summarize_heads(trace)[0].separator.has_value());
}

TEST(TraceFile, WhatIsSavedComesBackBitForBit) {
  const TemporaryFolder folder;
  AttentionTrace trace = trace_encoder(tiny_encoder(), two_sentences());
  trace.model = "models/tiny \"one\"";
  save_trace(folder.file("t"), trace);
  const AttentionTrace back = load_trace(folder.file("t"));
  EXPECT_EQ(back.model, trace.model);
  EXPECT_EQ(back.heads, 2);
  EXPECT_EQ(back.head_dim, 4);
  ASSERT_EQ(back.sentences.size(), 2U);
  EXPECT_EQ(back.sentences[1].tokens, trace.sentences[1].tokens);
  EXPECT_EQ(back.sentences[1].ids, trace.sentences[1].ids);
  for (Index head = 0; head < 2; ++head) {
    const Tensor<float, 2> got = head_weights(back, 0, 1, head), expected = head_weights(trace, 0, 1, head);
    for (Index i = 0; i < expected.elements(); ++i) EXPECT_EQ(got.data()[i], expected.data()[i]);
  }
}

TEST(TraceFile, AFileThatIsNoTraceIsRefusedByName) {
  const TemporaryFolder folder;
  AttentionTrace trace = trace_encoder(tiny_encoder(), two_sentences());
  const std::string path = folder.file("t");
  const auto refusal = [&](const std::string& key, const std::string& value) {
    save_trace(path, trace);
    const SafetensorsFile file(path);
    auto metadata = file.metadata();
    metadata[key] = value;
    write_safetensors(folder.file("other"), file.tensors(), metadata);
    const std::string message = message_of([&] { load_trace(folder.file("other")); });
    return message.substr(folder.file("other").size());
  };
  EXPECT_EQ(refusal("format", "pt"), ": is not a trace: metadata 'format' is 'pt'");
  EXPECT_EQ(refusal("version", "9"), ": trace version '9' is unknown; headwise reads version 1");
  EXPECT_EQ(refusal("heads", "-2"), ": metadata 'heads' must be a whole number from 1 to 1000000, got '-2'");
  EXPECT_EQ(refusal("heads", "3"), ": heads=3 is not divisible by kv_heads=2");
  EXPECT_EQ(refusal("head_dim", "5"),
            ": tensor 'sentences.0.layers.0.queries' must be float32 (2, 4, 5), got float32 (2, 4, 4)");
  EXPECT_EQ(refusal("layers", "3"), ": there is no tensor 'sentences.0.layers.2.queries'");
  EXPECT_EQ(refusal("tokens", "[[\"a\"]]"),
            ": metadata 'tokens' must hold an array of 4 strings for each sentence of as many ids");
  EXPECT_EQ(refusal("tokens", "[[1,2,3,4]]"), ": metadata 'tokens' must hold strings");
  EXPECT_EQ(refusal("tokens", "{"), ": metadata 'tokens': file ends before its JSON does (byte 1)");
  write_safetensors(path, {});
  EXPECT_EQ(message_of([&] { load_trace(path); }), path + ": is not a trace: there is no metadata 'format'");
}

}  // namespace
}  // namespace headwise
