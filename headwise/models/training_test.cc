// SPDX-License-Identifier: Apache-2.0
// The training loop and its parts: memorising, the same bits, the schedule, AdamW, clipping, dropout, the bytes.
#include "headwise/models/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "headwise/models/dropout.h"
#include "headwise/models/generation.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int n = 0; n < times; ++n) text += part;
  return text;
}

DecoderConfig tiny_decoder() {
  DecoderConfig config;
  config.layers = 1;
  config.hidden = 32;
  config.heads = 2;
  config.positions = 16;
  config.bias = false;
  return config;
}

TrainingConfig short_run(Index steps) {
  TrainingConfig config;
  config.batch = 4;
  config.learning_rate = {.highest = 1e-2, .last = 1e-3, .warm_up = 5, .steps = steps};
  config.seed = 9;
  return config;
}

TEST(Training, learns_a_text_that_repeats_itself_by_heart) {
  Training training(tiny_decoder(), short_run(150), repeated("she sells sea shells. ", 40));
  const double before = training.step();
  EXPECT_NEAR(before, std::log(static_cast<double>(training.vocabulary().size())), 0.1);
  while (training.steps_done() < 150) training.step();
  EXPECT_LT(training.losses().back(), 0.25);  // the first letters of a sequence cannot be known
  EXPECT_LT(training.evaluate(), 0.25);
  ASSERT_EQ(training.evaluations().size(), 1U);
  EXPECT_EQ(training.evaluations()[0].step, 150);
}

TEST(Training, gives_the_same_bits_on_any_number_of_threads) {
  DecoderConfig decoder = tiny_decoder();
  decoder.dropout = 0.1;
  const auto run = [&] {
    Training training(decoder, short_run(20), repeated("she sells sea shells. ", 40));
    while (training.steps_done() < 20) training.step();
    std::vector<double> all = training.losses();
    all.push_back(training.evaluate());
    for (const Parameter<float>& parameter : training.decoder().parameters()) {
      for (const float value : parameter.values()) all.push_back(static_cast<double>(value));
    }
    return all;
  };
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<double> expected = run();
  for (const int count : {2, 3}) {
    set_num_threads(count);
    EXPECT_EQ(run(), expected) << count << " threads";
  }
  set_num_threads(threads);
}

TEST(Training, names_what_does_not_fit) {
  EXPECT_EQ(error_text<ArgumentError>([&] { Training(tiny_decoder(), short_run(9), repeated("ab", 80)); }),
            "training: the text has 160 bytes; nine tenths of it and one tenth must each be longer than context=16: at "
            "least 170 bytes");
  EXPECT_EQ(error_text<ArgumentError>([&] { Training(tiny_decoder(), short_run(9), ""); }),
            "vocabulary: there is no byte");
  const auto refused = [](void (*change)(TrainingConfig&)) {
    TrainingConfig config = short_run(9);
    change(config);
    return error_text<ArgumentError>([&] { check_config(config); });
  };
  EXPECT_EQ(refused([](TrainingConfig& c) { c.batch = 0; }), "training: batch must be at least 1, got 0");
  EXPECT_EQ(refused([](TrainingConfig& c) { c.learning_rate.highest = 0; }),
            "training: learning_rate must be a finite number > 0, got 0");
  EXPECT_EQ(refused([](TrainingConfig& c) { c.learning_rate.last = 1; }),
            "training: last_learning_rate must be in 0..learning_rate, got 1");
  EXPECT_EQ(refused([](TrainingConfig& c) { c.learning_rate.warm_up = 9; }),
            "training: warm_up must be in 0..steps - 1, got 9");
  EXPECT_EQ(refused([](TrainingConfig& c) { c.clip = -1; }), "training: clip must be a finite number >= 0, got -1");
}

TEST(Training, stops_before_weights_that_are_no_numbers) {
  TrainingConfig config = short_run(9);
  Training training(tiny_decoder(), config, repeated("she sells sea shells. ", 40));
  training.decoder().parameters()[0].value[0] = std::numeric_limits<float>::quiet_NaN();
  const float kept = training.decoder().parameters()[1].value[0];
  EXPECT_THROW(training.step(), StateError);
  EXPECT_EQ(training.steps_done(), 0);
  EXPECT_EQ(training.decoder().parameters()[1].value[0], kept);
}

TEST(LearningRate, rises_straight_and_falls_by_half_a_cosine) {
  const LearningRate rate{.highest = 1, .last = 0.1, .warm_up = 4, .steps = 104};
  EXPECT_EQ(rate.at(0), 0.2);
  EXPECT_EQ(rate.at(3), 0.8);
  EXPECT_EQ(rate.at(4), 1);
  EXPECT_NEAR(rate.at(54), 0.55, 1e-15);
  for (const Index step : {5, 20, 79, 103}) {
    EXPECT_NEAR(rate.at(step), 0.1 + 0.45 * (1 + std::cos(std::acos(-1.0) * (step - 4) / 100)), 1e-15);
  }
  EXPECT_EQ(rate.at(104), 0.1);
  EXPECT_EQ(rate.at(5000), 0.1);
}

// A matrix and a vector of two values each.
struct Pair {
  std::vector<double> matrix{1, -2}, vector{0.5, 4}, matrix_gradient{0.5, -1}, vector_gradient{2, 0};
  std::vector<Parameter<double>> parameters() {
    return {{"matrix", {1, 2}, matrix.data(), matrix_gradient.data(), {}},
            {"vector", {2}, vector.data(), vector_gradient.data(), {}}};
  }
};

TEST(Adamw, takes_two_steps_as_written_out_and_decays_matrices_only) {
  Pair pair;
  Adamw<double> adamw(pair.parameters(), {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1});
  const auto expected = [](double value, double gradient, double decay) {
    double first = 0, second = 0;
    for (int step = 1; step <= 2; ++step) {
      const double g = gradient * 0.5;
      first = 0.9 * first + 0.1 * g;
      second = 0.99 * second + 0.01 * g * g;
      const double estimate = first / (1 - std::pow(0.9, step)), scale = second / (1 - std::pow(0.99, step));
      value = value - 0.01 * decay * value - 0.01 * estimate / (std::sqrt(scale) + 1e-8);
    }
    return value;
  };
  adamw.step(1, 0.01, 0.5);
  adamw.step(2, 0.01, 0.5);
  EXPECT_NEAR(pair.matrix[0], expected(1, 0.5, 0.1), 1e-14);
  EXPECT_NEAR(pair.matrix[1], expected(-2, -1, 0.1), 1e-14);
  EXPECT_NEAR(pair.vector[0], expected(0.5, 2, 0), 1e-14);
  EXPECT_EQ(pair.vector[1], 4);
}

TEST(Adamw, names_a_rate_out_of_range_and_a_parameter_without_gradient) {
  Pair pair;
  EXPECT_EQ(error_text<ArgumentError>([&] { Adamw<double>(pair.parameters(), {.beta2 = 1}); }),
            "Adamw: beta2 must be in [0, 1), got 1");
  EXPECT_EQ(error_text<ArgumentError>([&] { Adamw<double>(pair.parameters(), {.weight_decay = -1}); }),
            "Adamw: weight_decay must be a finite number >= 0, got -1");
  auto parameters = pair.parameters();
  parameters[1].gradient = nullptr;
  EXPECT_EQ(error_text<ArgumentError>([&] { Adamw<double>(parameters, {}); }), "Adamw: vector has no gradient");
}

TEST(Clipping, scales_gradients_whose_norm_is_above_the_limit) {
  Pair pair;
  pair.matrix_gradient = {2, -4};
  pair.vector_gradient = {4, 0};
  EXPECT_EQ(gradient_norm<double>(pair.parameters()), 6);
  EXPECT_NEAR(clip_scale(6, 1), 1.0 / 6, 1e-6);
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(6, 0), 1);
}

TEST(ElementDropout, drops_the_share_it_says_and_is_a_function_of_its_coordinates) {
  const auto mask = [](const ElementDropout& rule, std::size_t count) {
    std::vector<double> values(count, 1.0);
    apply_dropout<double>(rule, values);
    return values;
  };
  const std::vector<double> first = mask({0.25, 7, 2, 1}, 40000);
  double kept = 0;
  for (const double value : first) {
    EXPECT_TRUE(value == 0 || value == 4.0 / 3) << value;
    kept += value > 0;
  }
  EXPECT_NEAR(kept / 40000, 0.75, 4 * std::sqrt(0.25 * 0.75 / 40000));
  // A shorter tensor begins with the same draws.
  const std::vector<double> shorter = mask({0.25, 7, 2, 1}, 333);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), first.begin()));
  EXPECT_NE(mask({0.25, 8, 2, 1}, 333), shorter);
  EXPECT_NE(mask({0.25, 7, 3, 1}, 333), shorter);
  EXPECT_NE(mask({0.25, 7, 2, 2}, 333), shorter);
  EXPECT_EQ(mask({0, 7, 2, 1}, 333), std::vector<double>(333, 1.0));
}

TEST(ByteVocabulary, is_the_bytes_that_occur_and_names_the_others) {
  const ByteVocabulary vocabulary = ByteVocabulary::of("b a\n\xE2");
  EXPECT_EQ(vocabulary.size(), 5);
  EXPECT_EQ(vocabulary.encode("ab"), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(vocabulary.decode(3), 'b');
  std::string names;
  for (Index token = 0; token < 5; ++token) names += vocabulary.name(token) + " ";
  EXPECT_EQ(names, "\\n ␣ a b \\xE2 ");
  EXPECT_EQ(error_text<ArgumentError>([&] { static_cast<void>(vocabulary.encode("abc")); }),
            "vocabulary: byte 0x63 at 2 was not in the text that the model was trained on");
  EXPECT_EQ(error_text<ArgumentError>([] { ByteVocabulary({4, 4}); }), "vocabulary: bytes must rise, got 4 after 4");
}

TEST(Sampling, follows_the_weights_and_takes_only_the_likeliest) {
  const std::vector<float> logits{0, 2, 1, 2};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0), 1);
  std::vector<int> counts(4), top(4);
  for (std::uint64_t n = 0; n < 4000; ++n) {
    ++counts[sample_token(logits, {.seed = 5}, n)];
    ++top[sample_token(logits, {.top_k = 2, .seed = 5}, n)];
  }
  const double sum = 1 + 2 * std::exp(2.0) + std::exp(1.0);
  for (int token = 0; token < 4; ++token) {
    EXPECT_NEAR(counts[token] / 4000.0, std::exp(static_cast<double>(logits[token])) / sum, 0.04) << token;
  }
  EXPECT_EQ(top[0] + top[2], 0);
  EXPECT_GT(top[3], 1500);
  EXPECT_EQ(error_text<ArgumentError>([] { check_sampling({.temperature = -1}); }),
            "generate: temperature must be a finite number >= 0, got -1");
  EXPECT_EQ(error_text<ArgumentError>([] { check_sampling({.top_k = -1}); }), "generate: top_k must be >= 0, got -1");
}

TEST(Generation, goes_on_with_the_newer_half_when_the_positions_are_full) {
  Training training(tiny_decoder(), short_run(150), repeated("she sells sea shells. ", 40));
  while (training.steps_done() < 150) training.step();
  const ByteVocabulary& vocabulary = training.vocabulary();
  std::string text;
  generate(training.decoder(), vocabulary.encode("she sells sea "), 60, {.temperature = 0},
           [&](std::int64_t token) { text += vocabulary.decode(token); });
  EXPECT_EQ(text, repeated("shells. she sells sea ", 3).substr(0, 60));
  EXPECT_EQ(error_text<ArgumentError>([&] { generate(training.decoder(), {}, 1, {}, [](std::int64_t) {}); }),
            "generate: the prompt must have at least one token");
}

}  // namespace
}  // namespace headwise
