// SPDX-License-Identifier: Apache-2.0
// Rotary positions against the plain formula, their bits, and what a layer with them refuses.
#include "headwise/kernels/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;
using testing::expect_near;
using testing::random_tensor;
using testing::same_bits;

constexpr RotaryStyle kStyles[] = {RotaryStyle::kHalfSplit, RotaryStyle::kInterleaved};

MultiHeadAttentionOptions rotary_options(const RotaryRule& rule) {
  MultiHeadAttentionOptions options;
  options.num_heads = 4;
  options.num_kv_heads = 2;
  options.head_dim = 6;
  options.seed = 3;
  options.rotary = rule;
  return options;
}

// The formula, with the C library's functions.
void turn_plainly(const Tensor<double, 4>& source, const RotaryRule& rule, Index offset, Tensor<double, 4>& result) {
  const Index width = rule.rotary_dim == 0 ? source.size(3) : rule.rotary_dim;
  for (Index b = 0; b < source.size(0); ++b) {
    for (Index t = 0; t < source.size(1); ++t) {
      for (Index h = 0; h < source.size(2); ++h) {
        for (Index d = 0; d < source.size(3); ++d) result(b, t, h, d) = source(b, t, h, d);
        for (Index i = 0; i < width / 2; ++i) {
          const bool half = rule.style == RotaryStyle::kHalfSplit;
          const Index first = half ? i : 2 * i, second = half ? i + width / 2 : 2 * i + 1;
          const double angle = static_cast<double>(t + offset) * std::pow(rule.base, -2.0 * i / width);
          const double a = source(b, t, h, first), c = source(b, t, h, second);
          result(b, t, h, first) = a * std::cos(angle) - c * std::sin(angle);
          result(b, t, h, second) = c * std::cos(angle) + a * std::sin(angle);
        }
      }
    }
  }
}

TEST(Rotary, SineAndCosineAreRightToTheLastBitsAtEveryPosition) {
  for (double position = 0; position < 1.2e12; position = position * 1.7 + 1) {
    for (const double frequency : {1.0, 0.3, 1e-4}) {
      const double whole = std::floor(position);
      const double high = whole * frequency, low = std::fma(whole, frequency, -high);  // their sum is exact
      const long double sine = std::sin(static_cast<long double>(high)),
                        cosine = std::cos(static_cast<long double>(high));
      const long double low_sine = std::sin(static_cast<long double>(low));
      const long double low_cosine = std::cos(static_cast<long double>(low));
      const SineCosine turn = turn_of(whole, frequency);
      EXPECT_NEAR(turn.sine, static_cast<double>(sine * low_cosine + cosine * low_sine), 2.3e-16) << whole;
      EXPECT_NEAR(turn.cosine, static_cast<double>(cosine * low_cosine - sine * low_sine), 2.3e-16) << whole;
      const SineCosine mirrored = turn_of(-whole, frequency);
      EXPECT_EQ(mirrored.sine, -turn.sine);
      EXPECT_EQ(mirrored.cosine, turn.cosine);
    }
  }
}

TEST(Rotary, FrequenciesAreFallingPowersOfTheBase) {
  for (const double base : {10000.0, 500000.0, 1e6}) {
    const std::vector<double> frequencies = rotary_frequencies({.base = base}, 128);
    ASSERT_EQ(frequencies.size(), 64U);
    for (Index i = 0; i < 64; ++i) {
      const double expected = std::pow(base, -static_cast<double>(i) / 64);
      EXPECT_NEAR(frequencies[i] / expected, 1, 4e-15) << base << " " << i;
    }
  }
  EXPECT_EQ(rotary_frequencies({.scaling = RotaryScaling::kLinear, .factor = 4}, 4)[0], 0.25);
}

TEST(Rotary, Llama3ScalesLongWavesAndLeavesShortOnes) {
  const RotaryRule plain{.base = 500000};
  RotaryRule scaled = plain;
  scaled.scaling = RotaryScaling::kLlama3;
  scaled.factor = 8;
  const std::vector<double> before = rotary_frequencies(plain, 128), after = rotary_frequencies(scaled, 128);
  int short_waves = 0, long_waves = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double turns = 8192 * before[i] / (2 * std::acos(-1.0));  // within the original context
    const double share = turns > 4 ? 1 : turns < 1 ? 0 : (turns - 1) / 3;
    EXPECT_NEAR(after[i], before[i] * (share + (1 - share) / 8), 1e-14 * before[i]) << i;
    short_waves += share == 1;
    long_waves += share == 0;
  }
  EXPECT_GT(short_waves, 10);
  EXPECT_GT(long_waves, 10);
  EXPECT_LT(short_waves + long_waves, 64);  // and some are blended
}

TEST(Rotary, TurnsPairsAsTheFormulaSaysAndBackAgain) {
  for (const RotaryStyle style : kStyles) {
    for (const Index rotary_dim : {0, 4}) {
      const RotaryRule rule{.style = style, .rotary_dim = rotary_dim, .base = 100};
      const std::vector<double> frequencies = rotary_frequencies(rule, 8);
      const Tensor<double, 4> source = random_tensor<double, 4>({2, 37, 3, 8}, 1);
      Tensor<double, 4> turned = source, expected(source.shape());
      const Index offset[] = {1000};
      turn_plainly(source, rule, 1000, expected);
      const bool interleaved = style == RotaryStyle::kInterleaved;
      turn_pairs(turned.view(), {frequencies, interleaved, false, offset}, {});
      expect_near(turned, expected, 1e-12);  // 1000 tokens on, the C library's power is off by so much
      turn_pairs(turned.view(), {frequencies, interleaved, true, offset}, {});
      expect_near(turned, source, 1e-15);
    }
  }
}

TEST(Rotary, GivesTheSameBitsForAnyThreadsChunksBatchAndStrides) {
  const std::vector<double> frequencies = rotary_frequencies({}, 6);
  const Tensor<float, 4> source = random_tensor<float, 4>({3, 50, 2, 6}, 2);
  const Index zero[] = {0};
  Tensor<float, 4> whole = source;
  turn_pairs(whole.view(), {frequencies, false, false, zero}, {});
  for (const int count : {1, 2, 3}) {
    set_num_threads(count);
    Tensor<float, 4> again = source;
    turn_pairs(again.view(), {frequencies, false, false, zero}, {});
    EXPECT_TRUE(same_bits(again, whole)) << count;
  }
  set_num_threads(2);
  Tensor<float, 4> chunked = source;
  for (Index first = 0; first < 50; first += 7) {
    const Index offset[] = {first};
    turn_pairs(chunked.view().slice(1, first, std::min<Index>(50, first + 7)), {frequencies, false, false, offset}, {});
  }
  EXPECT_TRUE(same_bits(chunked, whole));
  Tensor<float, 4> turned_axes(source.cview().transpose(1, 3));  // (batch, head_dim, heads, seq)
  const Index each[] = {0, 0, 5};
  turn_pairs(turned_axes.view().transpose(1, 3), {frequencies, false, false, each}, {});
  const Tensor<float, 4> back(turned_axes.cview().transpose(1, 3));
  Tensor<float, 4> shifted = source;
  const Index five[] = {5};
  turn_pairs(shifted.view(), {frequencies, false, false, five}, {});
  for (Index b = 0; b < 3; ++b) {
    const Tensor<float, 3> got(back.cview().select(0, b));
    EXPECT_TRUE(same_bits(got, Tensor<float, 3>((b == 2 ? shifted : whole).cview().select(0, b)))) << b;
  }
}

TEST(Rotary, LayerTurnsItsQueriesAndKeysAndNothingElse) {
  for (const RotaryStyle style : kStyles) {
    const RotaryRule rule{.style = style, .rotary_dim = 4, .base = 50};
    MultiHeadAttentionOptions options = rotary_options(rule);
    const MultiHeadAttention<double> layer(5, 7, options);
    options.rotary.reset();
    const MultiHeadAttention<double> plain(5, 7, options);  // the same weights
    const Tensor<double, 3> x = random_tensor<double, 3>({2, 9, 5}, 4);
    const auto heads_of_layer = [&](const MultiHeadAttention<double>& which, const ForwardOptions<double>& given) {
      std::vector<Tensor<double, 4>> heads{Tensor<double, 4>({2, 4, 9, 6}), Tensor<double, 4>({2, 2, 9, 6}),
                                           Tensor<double, 4>({2, 2, 9, 6})};
      LayerOutputs<double> extras;
      extras.queries = heads[0].view();
      extras.keys = heads[1].view();
      extras.values = heads[2].view();
      which.forward(x.view(), {}, given, nullptr, extras);
      return heads;
    };
    ForwardOptions<double> moved;
    const Index offset[] = {3};
    moved.visibility.alignment = Alignment::kOffset;
    moved.visibility.query_offset = offset;
    const auto before = heads_of_layer(plain, {}), after = heads_of_layer(layer, moved);
    for (int part = 0; part < 2; ++part) {
      const Tensor<double, 4> source(before[part].cview().transpose(1, 2));
      Tensor<double, 4> expected(source.shape());
      turn_plainly(source, rule, part == 0 ? 3 : 0, expected);
      expect_near(Tensor<double, 4>(after[part].cview().transpose(1, 2)), expected, 1e-13);
    }
    EXPECT_TRUE(same_bits(after[2], before[2]));
  }
}

TEST(Rotary, ScoresDependOnTheDistanceAlone) {
  MultiHeadAttentionOptions options = rotary_options({});
  options.causal = false;
  const MultiHeadAttention<double> layer(5, 7, options);
  Tensor<double, 3> x({1, 4, 5});
  const Tensor<double, 3> token = random_tensor<double, 3>({1, 1, 5}, 5);
  for (Index t = 0; t < 4; ++t) {
    for (Index d = 0; d < 5; ++d) x(0, t, d) = token(0, 0, d);
  }
  Tensor<double, 4> queries({1, 4, 4, 6}), keys({1, 2, 4, 6});
  LayerOutputs<double> extras;
  extras.queries = queries.view();
  extras.keys = keys.view();
  layer.forward(x.view(), {}, {}, nullptr, extras);
  const auto score = [&](Index i, Index j) {
    double sum = 0;
    for (Index d = 0; d < 6; ++d) sum += queries(0, 0, i, d) * keys(0, 0, j, d);
    return sum;
  };
  EXPECT_NEAR(score(1, 0), score(3, 2), 1e-14);
  EXPECT_NEAR(score(0, 2), score(1, 3), 1e-14);
  EXPECT_GT(std::abs(score(1, 0) - score(2, 0)), 1e-3);
}

TEST(Rotary, LayerGivesTheSameBitsForAnyThreadsAndEachBatchEntryAlone) {
  MultiHeadAttentionOptions options = rotary_options({});
  options.window_left = 9;
  MultiHeadAttention<float> layer(5, 7, options);
  const Tensor<float, 3> x = random_tensor<float, 3>({2, 40, 5}, 6), grad = random_tensor<float, 3>({2, 40, 7}, 7);
  std::vector<Tensor<float, 3>> outs, grads;
  for (const int count : {1, 2, 3}) {
    set_num_threads(count);
    Activations<float> saved;
    outs.push_back(layer.forward(x.view(), {}, {}, &saved));
    grads.emplace_back(x.shape());
    layer.backward(saved, grad.view(), grads.back().view());
  }
  set_num_threads(2);
  for (int i = 1; i < 3; ++i) {
    EXPECT_TRUE(same_bits(outs[i], outs[0]));
    EXPECT_TRUE(same_bits(grads[i], grads[0]));
  }
  const Tensor<float, 3> alone = layer.forward(x.cview().slice(0, 1, 2));
  EXPECT_TRUE(same_bits(alone, Tensor<float, 3>(outs[0].cview().slice(0, 1, 2))));
}

TEST(Window, OfTheLayerAndOfTheCallTheNarrowerCounts) {
  MultiHeadAttentionOptions options = rotary_options({});
  options.rotary.reset();
  const MultiHeadAttention<double> open(5, 7, options);
  options.window_left = 2;
  const MultiHeadAttention<double> narrow(5, 7, options);
  const Tensor<double, 3> x = random_tensor<double, 3>({1, 8, 5}, 8);
  const auto out = [&](const MultiHeadAttention<double>& layer, Index given) {
    ForwardOptions<double> call;
    call.visibility.window_left = given;
    return layer.forward(x.view(), {}, call);
  };
  EXPECT_TRUE(same_bits(out(narrow, -1), out(open, 2)));
  EXPECT_TRUE(same_bits(out(narrow, 1), out(open, 1)));
  EXPECT_TRUE(same_bits(out(narrow, 5), out(open, 2)));
  EXPECT_FALSE(same_bits(out(narrow, -1), out(open, -1)));
}

TEST(RotaryErrors, NameWhatARuleCannotBe) {
  const auto text = [](const RotaryRule& rule, Index head_dim = 6) {
    return error_text<ArgumentError>([&] { check_rotary("Layer", rule, head_dim); });
  };
  EXPECT_EQ(text({.rotary_dim = 8}), "Layer: rotary rotary_dim must be in 0..head_dim=6, got 8");
  EXPECT_EQ(text({.rotary_dim = 3}), "Layer: rotary turns pairs: rotary_dim must be even, got 3");
  EXPECT_EQ(text({}, 5), "Layer: rotary turns pairs: rotary_dim must be even, got 5");
  EXPECT_EQ(text({.base = 1}), "Layer: rotary base must be above 1 and at most 1000000000000, got 1");
  EXPECT_EQ(text({.scaling = RotaryScaling::kLinear, .factor = 0.5}),
            "Layer: rotary factor must be in 1..1000000000000, got 0.5");
  RotaryRule llama3{.scaling = RotaryScaling::kLlama3, .factor = 8, .low_freq_factor = 4, .high_freq_factor = 4};
  EXPECT_EQ(text(llama3), "Layer: rotary low_freq_factor must be above 0 and below high_freq_factor, got 4 and 4");
  llama3.low_freq_factor = 1;
  llama3.original_context = 0;
  EXPECT_EQ(text(llama3), "Layer: rotary original_context must be at least 1, got 0");
}

TEST(RotaryErrors, NameWhatALayerWithPositionsOrAWindowCannotDo) {
  const MultiHeadAttention<double> layer(5, 7, rotary_options({}));
  const Tensor<double, 3> x({1, 2, 5});
  EXPECT_EQ(
      error_text<ArgumentError>([&] { layer.forward(x.view(), x.view()); }),
      "MultiHeadAttention: keys_values cannot be given to a layer with rotary positions, whose keys are those of x");
  ForwardOptions<double> far;
  const Index offset[] = {Index{1} << 41};
  far.visibility.alignment = Alignment::kOffset;
  far.visibility.query_offset = offset;
  EXPECT_EQ(error_text<ArgumentError>([&] { layer.forward(x.view(), {}, far); }),
            "MultiHeadAttention: query_offset must be in -2^40..2^40 with rotary positions, got 2199023255552");
  MultiHeadAttentionOptions options;
  options.num_heads = 2;
  options.rotary = RotaryRule{};
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(4, 4, options).split(); }),
            "MultiHeadAttention.split: a wrapper has no rotary positions");
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(4, 6, options); }),
            "MultiHeadAttention: rotary turns pairs: rotary_dim must be even, got 3");
  options.rotary.reset();
  options.window_left = 1;
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(4, 4, options).split(); }),
            "MultiHeadAttention.split: a wrapper has no window");
  options.window_left = -1;
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(4, 4, options); }),
            "MultiHeadAttention: window_left must be at least 0, got -1");
}

}  // namespace
}  // namespace headwise
