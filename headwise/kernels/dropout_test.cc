// SPDX-License-Identifier: Apache-2.0
// Which weights are dropped, and that forward, backward and the weights that are handed out agree about it.
#include "headwise/kernels/dropout.h"

#include <gtest/gtest.h>

#include "headwise/kernels/attention.h"
#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor.h"

namespace headwise {
namespace {

constexpr Index kSeq = 300;

double kept_share(const DropoutRule& rule, Index queries, Index keys) {
  const DropoutStream stream = dropout_stream(rule, 0, 0);
  const std::uint32_t threshold = dropout_threshold(rule.probability);
  Index kept = 0;
  for (Index i = 0; i < queries; ++i) {
    for (Index j = 0; j < keys; ++j) kept += dropout_draw(stream, i, j) >= threshold ? 1 : 0;
  }
  return static_cast<double>(kept) / static_cast<double>(queries * keys);
}

TEST(Dropout, TheKeepRateIsWithinFourSigma) {
  for (double probability : {0.001, 0.1, 0.25, 0.5, 0.9, 0.999}) {
    for (std::uint64_t seed : {1, 2, 3}) {
      const double share = kept_share({probability, seed, 0, 0, 0}, 1000, 1000);
      const double sigma = std::sqrt(probability * (1 - probability) / 1e6);
      EXPECT_NEAR(share, 1 - probability, 4 * sigma + 0x1p-17) << "dropout " << probability << ", seed " << seed;
    }
  }
}

// Rows and columns by themselves: a stream that is right on average may still favour a key or a query.
TEST(Dropout, EveryQueryAndEveryKeyIsKeptAtTheSameRate) {
  const DropoutStream stream = dropout_stream({0.5, 9, 0, 0, 0}, 0, 0);
  constexpr Index kCount = 512;
  std::vector<int> of_query(kCount), of_key(kCount);
  for (Index i = 0; i < kCount; ++i) {
    for (Index j = 0; j < kCount; ++j) {
      const int kept = dropout_draw(stream, i, j) >= 32768 ? 1 : 0;
      of_query[i] += kept;
      of_key[j] += kept;
    }
  }
  const double sigma = std::sqrt(kCount * 0.25);
  for (Index n = 0; n < kCount; ++n) {
    EXPECT_NEAR(of_query[n], kCount / 2.0, 5 * sigma) << "query " << n;
    EXPECT_NEAR(of_key[n], kCount / 2.0, 5 * sigma) << "key " << n;
  }
}

TEST(Dropout, AlmostEverythingDroppedStillKeepsSomething) {
  EXPECT_EQ(dropout_threshold(0.99999999), 65535U);
  EXPECT_EQ(dropout_keep_scale(65535), 65536.0);
  EXPECT_EQ(dropout_threshold(0), 0U);
  EXPECT_EQ(dropout_keep_scale(0), 1.0);
}

// Two heads of two entries whose weights are all alike, so that what is kept can be read off.
struct Uniform {
  Tensor<float, 4> queries, keys, values, grad_context, context, weights;
  Tensor<float, 3> row_max, row_sum;
  Index offset[1];
  AttentionProblem<float> problem;

  Uniform(Index seq_q, Index seq_kv, Index first_position, const DropoutRule& rule)
      : queries({2, 2, seq_q, 4}),
        keys({2, 2, seq_kv, 4}),
        values({2, 2, seq_kv, 8}),
        grad_context({2, 2, seq_q, 8}),
        context({2, 2, seq_q, 8}),
        weights({2, 2, seq_q, seq_kv}),
        row_max({2, 2, seq_q}),
        row_sum({2, 2, seq_q}),
        offset{first_position} {
    values.fill(1.0F);
    grad_context.fill(1.0F);
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    problem.visibility.alignment = Alignment::kOffset;
    problem.visibility.query_offset = offset;
    problem.dropout = rule;
  }
  Uniform(const Uniform&) = delete;
  Uniform& operator=(const Uniform&) = delete;

  void forward() {
    AttentionOutputs<float> outputs;
    outputs.context = context.view();
    outputs.row_max = row_max.view();
    outputs.row_sum = row_sum.view();
    outputs.weights = weights.view();
    outputs.weights_after_dropout = true;
    attention_forward(problem, outputs);
  }
};

void expect_drawn_mask(Index first_position, const DropoutRule& rule) {
  Uniform u(150, kSeq, first_position, rule);
  u.forward();
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 2; ++h) {
      const DropoutStream stream = dropout_stream(rule, b, h);
      for (Index i = 0; i < 150; ++i) {
        double kept = 0;
        for (Index j = 0; j < kSeq; ++j) {
          const bool drawn = dropout_draw(stream, i + first_position, j) >= dropout_threshold(rule.probability);
          ASSERT_EQ(u.weights(b, h, i, j) != 0, drawn) << "query " << i << " + " << first_position << ", key " << j;
          kept += drawn ? 1 : 0;
        }
        // The context was computed by its own pass through the mask.
        ASSERT_NEAR(u.context(b, h, i, 5), kept / kSeq / (1 - rule.probability), 1e-4);
      }
    }
  }
}

TEST(Dropout, ForwardDropsWhatIsDrawnWhereverTheTileBegins) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    for (Index offset : {0, 1, 63, 77, 127, 129, 255, -13}) expect_drawn_mask(offset, {0.3, 11, 4, 1, 2});
  }
  force_isa(std::nullopt);
}

TEST(Dropout, PositionsBeyondFourThousandMillionHaveTheirOwnMask) {
  constexpr Index kFar = (Index{1} << 32) + 5;
  for (Isa isa : available_isas()) {
    force_isa(isa);
    expect_drawn_mask(kFar, {0.5, 3, 0, 0, 0});
  }
  force_isa(std::nullopt);
  const DropoutStream stream = dropout_stream({0.5, 3, 0, 0, 0}, 0, 0);
  int differ = 0;
  for (Index j = 0; j < 1000; ++j) differ += dropout_draw(stream, 5, j) != dropout_draw(stream, kFar, j) ? 1 : 0;
  EXPECT_GT(differ, 900);
  differ = 0;
  const Index far_keys = Index{1} << 35;  // the word that counts runs of keys needs more than 32 bits here
  for (Index j = 0; j < 1000; ++j)
    differ += dropout_draw(stream, 5, j) != dropout_draw(stream, 5, far_keys + j) ? 1 : 0;
  EXPECT_GT(differ, 900);
}

// With one query, grad_values of a key is its kept weight: 0 exactly where forward dropped it.
TEST(Dropout, BackwardDropsWhatForwardDropped) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    for (Index position : {0, 1, 127, 1000}) {
      Uniform u(1, kSeq, position, {0.4, 21, 2, 0, 0});
      u.forward();
      Tensor<float, 4> grad_values(u.values.shape());
      AttentionGradients<float> gradients;
      gradients.values = grad_values.view();
      attention_backward<float>(u.problem, u.grad_context.cview(),
                                {u.context.cview(), u.row_max.cview(), u.row_sum.cview()}, gradients);
      Index dropped = 0;
      for (Index b = 0; b < 2; ++b) {
        for (Index h = 0; h < 2; ++h) {
          for (Index j = 0; j < kSeq; ++j) {
            ASSERT_EQ(grad_values(b, h, j, 3), u.weights(b, h, 0, j)) << "position " << position << ", key " << j;
            dropped += grad_values(b, h, j, 3) == 0 ? 1 : 0;
          }
        }
      }
      EXPECT_GT(dropped, 4 * kSeq / 4);
    }
  }
  force_isa(std::nullopt);
}

// How many of the draws of two rules agree: about one in 65536 by chance.
int equal_draws(const DropoutStream& a, const DropoutStream& b) {
  int equal = 0;
  for (Index i = 0; i < 32; ++i) {
    for (Index j = 0; j < 256; ++j) equal += dropout_draw(a, i, j) == dropout_draw(b, i, j) ? 1 : 0;
  }
  return equal;
}

TEST(Dropout, SeedsCallsBatchEntriesAndHeadsDrawTheirOwnMasks) {
  const DropoutRule rule{0.5, 100, 3, 0, 0};
  DropoutRule other_seed = rule, high_seed = rule, other_call = rule, high_call = rule;
  other_seed.seed = 101;
  high_seed.seed = 100 + (std::uint64_t{1} << 40);
  other_call.call = 4;
  high_call.call = 3 + (std::uint64_t{1} << 40);
  const DropoutStream streams[] = {dropout_stream(rule, 0, 0),      dropout_stream(rule, 0, 1),
                                   dropout_stream(rule, 1, 0),      dropout_stream(other_seed, 0, 0),
                                   dropout_stream(high_seed, 0, 0), dropout_stream(other_call, 0, 0),
                                   dropout_stream(high_call, 0, 0)};
  for (std::size_t a = 0; a < std::size(streams); ++a) {
    for (std::size_t b = 0; b < a; ++b) EXPECT_LT(equal_draws(streams[a], streams[b]), 8) << a << " and " << b;
  }
}

TEST(Dropout, OffsetsNameEntriesAndHeadsOfTheWhole) {
  const DropoutRule rule{0.5, 100, 3, 0, 0};
  DropoutRule part = rule;
  part.batch_offset = 5;
  part.head_offset = 2;
  EXPECT_EQ(equal_draws(dropout_stream(rule, 6, 3), dropout_stream(part, 1, 1)), 32 * 256);
}

}  // namespace
}  // namespace headwise
