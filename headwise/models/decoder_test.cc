// SPDX-License-Identifier: Apache-2.0
// The decoder's forward, decoding beside it, names, initial weights, and the same bits everywhere.
#include "headwise/models/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;
using testing::same_bits;

DecoderConfig middle_config() {
  DecoderConfig config;
  config.layers = 2;
  config.hidden = 48;
  config.heads = 3;
  config.vocab = 37;
  config.positions = 24;
  return config;
}

template <class T>
Decoder<T> random_decoder(const DecoderConfig& config, Gradients gradients = Gradients::kNone) {
  Decoder<T> decoder(config, gradients);
  std::uint64_t seed = 1;
  for (const Parameter<T>& parameter : decoder.parameters()) {
    TorchGenerator(seed++).fill_uniform(parameter.values(), -0.3, 0.3);
  }
  return decoder;
}

Tensor<std::int64_t, 2> random_ids(Index batch, Index seq, Index vocab, std::uint64_t seed) {
  Tensor<std::int64_t, 2> ids(Shape<2>{batch, seq});
  TorchGenerator generator(seed);
  for (Index n = 0; n < ids.elements(); ++n) ids.data()[n] = generator.next32() % vocab;
  return ids;
}

template <class T>
class DecoderOf : public ::testing::Test {};
using WorkingTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DecoderOf, WorkingTypes);

TYPED_TEST(DecoderOf, gives_the_bits_of_the_whole_sequence_when_it_decodes_in_pieces) {
  using T = TypeParam;
  const DecoderConfig config = middle_config();
  const Decoder<T> decoder = random_decoder<T>(config);
  const Tensor<std::int64_t, 2> ids = random_ids(2, 24, config.vocab, 3);
  const Tensor<T, 3> whole = decoder.forward(ids.cview());
  for (const std::vector<Index>& pieces : {std::vector<Index>(24, 1), {24}, {7, 1, 1, 15}}) {
    DecoderState<T> state = decoder.start(2);
    Index at = 0;
    for (const Index count : pieces) {
      const Tensor<T, 2> logits = decoder.decode(ids.cview().slice(1, at, at + count), state);
      at += count;
      EXPECT_EQ(state.length(), at);
      EXPECT_TRUE(same_bits(logits, Tensor<T, 2>(whole.cview().select(1, at - 1)))) << "at " << at;
    }
  }
}

TYPED_TEST(DecoderOf, looks_at_no_later_token) {
  using T = TypeParam;
  const DecoderConfig config = middle_config();
  const Decoder<T> decoder = random_decoder<T>(config);
  Tensor<std::int64_t, 2> ids = random_ids(1, 9, config.vocab, 3);
  const Tensor<T, 3> before = decoder.forward(ids.cview());
  ids(0, 8) = (ids(0, 8) + 1) % config.vocab;
  const Tensor<T, 3> after = decoder.forward(ids.cview());
  const auto first_eight = [](const Tensor<T, 3>& logits) { return Tensor<T, 3>(logits.cview().slice(1, 0, 8)); };
  EXPECT_TRUE(same_bits(first_eight(before), first_eight(after)));
  EXPECT_FALSE(same_bits(before, after));
}

TYPED_TEST(DecoderOf, gives_the_same_loss_and_gradients_on_any_threads_and_instruction_set) {
  using T = TypeParam;
  DecoderConfig config = middle_config();
  config.dropout = 0.2;
  const Tensor<std::int64_t, 2> ids = random_ids(13, 24, config.vocab, 3),
                                targets = random_ids(13, 24, config.vocab, 4);
  const auto run = [&] {
    Decoder<T> decoder = random_decoder<T>(config, Gradients::kStored);
    DecoderActivations<T> saved;
    std::vector<T> all{static_cast<T>(decoder.loss_and_gradients(ids.cview(), targets.cview(), {true, 5, 6}, saved))};
    for (const Parameter<T>& parameter : decoder.parameters()) {
      const std::span<T> gradients = parameter.gradients();
      all.insert(all.end(), gradients.begin(), gradients.end());
    }
    return all;
  };
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<T> expected = run();
  for (const int count : {2, 3}) {
    set_num_threads(count);
    EXPECT_EQ(run(), expected) << count << " threads";
  }
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    EXPECT_EQ(run(), expected) << isa_name(isa);
  }
  force_isa({});
  set_num_threads(threads);
}

TYPED_TEST(DecoderOf, takes_its_loss_in_pieces_that_give_the_mean_over_all_tokens) {
  using T = TypeParam;
  // Above kLogitPiece / 256, so that a piece is 256 tokens.
  DecoderConfig config = middle_config();
  config.vocab = 9000;
  config.layers = 1;
  const Decoder<T> decoder = random_decoder<T>(config);
  const Tensor<std::int64_t, 2> ids = random_ids(12, 24, config.vocab, 3),
                                targets = random_ids(12, 24, config.vocab, 4);
  DecoderActivations<T> room;
  const double loss = decoder.loss(ids.cview(), targets.cview(), room);
  EXPECT_EQ(room.logits.size(0), 256);
  const Tensor<T, 3> logits = decoder.forward(ids.cview());
  double sum = 0;
  for (Index b = 0; b < 12; ++b) {
    for (Index i = 0; i < 24; ++i) {
      double total = 0;
      for (Index v = 0; v < config.vocab; ++v) total += std::exp(static_cast<double>(logits(b, i, v)));
      sum += std::log(total) - static_cast<double>(logits(b, i, targets(b, i)));
    }
  }
  EXPECT_NEAR(loss, sum / (12 * 24), sizeof(T) == 4 ? 2e-6 : 1e-12);
}

TEST(Decoder, has_nanogpts_names_and_shapes) {
  DecoderConfig config = middle_config();
  config.layers = 1;
  config.tied = false;
  Decoder<float> decoder(config);
  std::string text;
  for (const auto& p : decoder.parameters()) text += p.name + " " + format_shape(p.shape) + "\n";
  EXPECT_EQ(text,
            "transformer.wte.weight (37, 48)\ntransformer.wpe.weight (24, 48)\ntransformer.h.0.ln_1.weight (48,)\n"
            "transformer.h.0.ln_1.bias (48,)\ntransformer.h.0.attn.c_attn.weight (144, 48)\n"
            "transformer.h.0.attn.c_attn.bias (144,)\ntransformer.h.0.attn.c_proj.weight (48, 48)\n"
            "transformer.h.0.attn.c_proj.bias (48,)\ntransformer.h.0.ln_2.weight (48,)\n"
            "transformer.h.0.ln_2.bias (48,)\ntransformer.h.0.mlp.c_fc.weight (192, 48)\n"
            "transformer.h.0.mlp.c_fc.bias (192,)\ntransformer.h.0.mlp.c_proj.weight (48, 192)\n"
            "transformer.h.0.mlp.c_proj.bias (48,)\ntransformer.ln_f.weight (48,)\ntransformer.ln_f.bias (48,)\n"
            "lm_head.weight (37, 48)\n");
  config.tied = true;
  config.bias = false;
  EXPECT_EQ(Decoder<float>(config).parameters().size(), 9U);
}

TEST(Decoder, draws_initial_weights_of_the_deviation_that_gpt2_has) {
  DecoderConfig config = middle_config();
  Decoder<double> decoder(config);
  decoder.initialize(3);
  for (const Parameter<double>& parameter : decoder.parameters()) {
    double sum = 0, squares = 0;
    for (const double value : parameter.values()) {
      sum += value;
      squares += value * value;
    }
    const double count = static_cast<double>(parameter.elements());
    if (parameter.shape.size() == 1) {
      EXPECT_EQ(sum, parameter.name.ends_with("weight") ? count : 0) << parameter.name;
      continue;
    }
    const double deviation = parameter.name.ends_with("c_proj.weight") ? 0.01 : 0.02;
    EXPECT_NEAR(sum / count, 0, 4 * deviation / std::sqrt(count)) << parameter.name;
    EXPECT_NEAR(squares / count / (deviation * deviation), 1, 6 / std::sqrt(count)) << parameter.name;
  }
  Decoder<double> again(config), other(config);
  again.initialize(3);
  other.initialize(4);
  EXPECT_EQ(again.parameters()[0].value[5], decoder.parameters()[0].value[5]);
  EXPECT_NE(other.parameters()[0].value[5], decoder.parameters()[0].value[5]);
}

TEST(Decoder, loads_by_name_and_passes_over_masks_and_a_tied_head) {
  Decoder<float> source = random_decoder<float>(middle_config()), target(middle_config());
  std::vector<NamedTensor> tensors = source.state();
  tensors.push_back(tensors[0]);
  tensors.back().name = "lm_head.weight";
  tensors.push_back(tensors[1]);
  tensors.back().name = "transformer.h.0.attn.bias";
  target.load(tensors);
  const Tensor<std::int64_t, 2> ids = random_ids(1, 5, 37, 3);
  EXPECT_TRUE(same_bits(source.forward(ids.cview()), target.forward(ids.cview())));
  tensors.erase(tensors.begin());
  EXPECT_EQ(error_text<ArgumentError>([&] { target.load(tensors); }), "Decoder.load: missing transformer.wte.weight");
}

TEST(Decoder, names_what_does_not_fit) {
  const auto refused = [](void (*change)(DecoderConfig&)) {
    DecoderConfig config = middle_config();
    change(config);
    return error_text<std::invalid_argument>([&] { Decoder<float> decoder(config); });
  };
  EXPECT_EQ(refused([](DecoderConfig& c) { c.layers = 0; }), "Decoder: layers must be at least 1, got 0");
  EXPECT_EQ(refused([](DecoderConfig& c) { c.heads = 5; }),
            "Decoder: hidden=48 is not divisible by heads=5; nearest valid heads: 4, 6");
  EXPECT_EQ(refused([](DecoderConfig& c) { c.dropout = 1; }), "Decoder: dropout must be in [0, 1), got 1");
  EXPECT_EQ(refused([](DecoderConfig& c) { c.activation = "relu"; }),
            "Decoder: activation must be \"gelu\" or \"gelu_tanh\", got \"relu\"");
  EXPECT_EQ(refused([](DecoderConfig& c) { c.layer_norm_eps = -1; }),
            "Decoder: layer_norm_eps must be a finite number >= 0, got -1");
  Decoder<float> decoder(middle_config(), Gradients::kStored);
  const auto call = [&](Index seq, std::int64_t id) {
    Tensor<std::int64_t, 2> ids(Shape<2>{1, seq});
    ids(0, seq - 1) = id;
    return error_text<std::invalid_argument>([&] { decoder.forward(ids.cview()); });
  };
  EXPECT_EQ(call(25, 0), "Decoder: ids has seq=25 tokens, above positions=24");
  EXPECT_EQ(call(3, 37), "Decoder: ids must be in 0..36, got 37 at (0, 2)");
  const Tensor<std::int64_t, 2> ids = random_ids(2, 5, 37, 1), short_targets = random_ids(2, 4, 37, 1);
  DecoderActivations<float> saved;
  EXPECT_EQ(error_text<ShapeError>([&] { decoder.loss(ids.cview(), short_targets.cview(), saved); }),
            "Decoder: targets must be (batch=2, seq=5), got (2, 4)");
  DecoderState<float> state = decoder.start(2);
  decoder.decode(ids.cview(), state);
  const Tensor<std::int64_t, 2> twenty = random_ids(2, 20, 37, 1);
  EXPECT_EQ(error_text<ArgumentError>([&] { decoder.decode(twenty.cview(), state); }),
            "Decoder: ids has seq=5 + 20 tokens, above positions=24");
  EXPECT_EQ(state.length(), 5);
}

}  // namespace
}  // namespace headwise
