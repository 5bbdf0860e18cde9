// SPDX-License-Identifier: Apache-2.0
// Every wrong encoder and every wrong input, with the whole text it gets.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "headwise/models/encoder.h"
#include "headwise/tensor/errors.h"
#include "tests/support/encoder.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;
using testing::small_config;

template <class Error, class Change>
std::string construct(const Change& change) {
  EncoderConfig config = small_config();
  change(config);
  return error_text<Error>([&] { Encoder<float>{config}; });
}

TEST(EncoderConfigErrors, name_the_size) {
  const std::pair<const char*, Index EncoderConfig::*> sizes[] = {
      {"layers", &EncoderConfig::layers},        {"hidden", &EncoderConfig::hidden},
      {"heads", &EncoderConfig::heads},          {"intermediate", &EncoderConfig::intermediate},
      {"vocab", &EncoderConfig::vocab},          {"positions", &EncoderConfig::positions},
      {"type_vocab", &EncoderConfig::type_vocab}};
  for (const auto& [name, member] : sizes) {
    EXPECT_EQ(construct<ArgumentError>([&](EncoderConfig& config) { config.*member = 0; }),
              std::string("Encoder: ") + name + " must be at least 1, got 0");
  }
}

TEST(EncoderConfigErrors, name_heads_that_do_not_divide_and_other_values) {
  EXPECT_EQ(construct<ShapeError>([](EncoderConfig& config) { config.heads = 4; }),
            "Encoder: hidden=6 is not divisible by heads=4; nearest valid heads: 3, 6");
  EXPECT_EQ(construct<ArgumentError>([](EncoderConfig& config) { config.layer_norm_eps = -1; }),
            "Encoder: layer_norm_eps must be a finite number >= 0, got -1");
  EXPECT_EQ(construct<ArgumentError>([](EncoderConfig& config) { config.activation = "relu"; }),
            "Encoder: activation must be \"gelu\", got \"relu\"");
}

class EncoderInputErrors : public ::testing::Test {
 protected:
  template <class Error>
  std::string forward(const std::vector<LayerTrace<float>>& traces = {}) {
    return error_text<Error>([&] { encoder_.forward({ids_.cview(), lengths_, types_.cview()}, traces); });
  }

  Encoder<float> encoder_{small_config()};
  Tensor<std::int64_t, 2> ids_{Shape<2>{2, 5}}, types_{Shape<2>{2, 5}};
  std::vector<Index> lengths_{5, 3};
};

TEST_F(EncoderInputErrors, name_the_token_and_its_place) {
  ids_(1, 3) = 11;  // padding: not read
  ids_(1, 2) = 11;
  EXPECT_EQ(forward<ArgumentError>(), "Encoder: ids must be in 0..10, got 11 at (1, 2)");
  ids_(1, 2) = -1;
  EXPECT_EQ(forward<ArgumentError>(), "Encoder: ids must be in 0..10, got -1 at (1, 2)");
  ids_(1, 2) = 0;
  types_(0, 4) = 2;
  EXPECT_EQ(forward<ArgumentError>(), "Encoder: token_types must be in 0..1, got 2 at (0, 4)");
}

TEST_F(EncoderInputErrors, name_lengths_and_shapes) {
  lengths_ = {5, 6};
  EXPECT_EQ(forward<ArgumentError>(), "Encoder: lengths must be in 0..seq=5, got 6 at batch entry 1");
  lengths_ = {-1, 3};
  EXPECT_EQ(forward<ArgumentError>(), "Encoder: lengths must be in 0..seq=5, got -1 at batch entry 0");
  lengths_ = {5};
  EXPECT_EQ(forward<ShapeError>(), "Encoder: lengths must be (batch=2,), got (1,)");
  lengths_ = {5, 3};
  types_ = Tensor<std::int64_t, 2>(Shape<2>{2, 4});
  EXPECT_EQ(forward<ShapeError>(), "Encoder: token_types must be (batch=2, seq=5), got (2, 4)");
  ids_ = Tensor<std::int64_t, 2>(Shape<2>{2, 9});
  EXPECT_EQ(forward<ArgumentError>(), "Encoder: ids has seq=9 tokens, above positions=8");
}

TEST_F(EncoderInputErrors, name_a_trace_that_cannot_be_given) {
  std::vector<LayerTrace<float>> traces(1);
  traces[0].layer = 2;
  EXPECT_EQ(forward<ArgumentError>(traces), "Encoder: trace layer must be in 0..1, got 2");
  traces[0].layer = 1;
  traces.push_back(traces[0]);
  EXPECT_EQ(forward<ArgumentError>(traces), "Encoder: layer 1 is traced twice");
  Tensor<float, 3> hidden(Shape<3>{2, 5, 7});
  traces.pop_back();
  traces[0].hidden = hidden.view();
  EXPECT_EQ(forward<ShapeError>(traces), "Encoder: trace hidden must be (batch=2, seq=5, hidden=6), got (2, 5, 7)");
  Tensor<float, 4> queries(Shape<4>{2, 2, 5, 2});
  traces[0] = {};
  traces[0].attention.queries = queries.view();
  EXPECT_EQ(forward<ShapeError>(traces),
            "Encoder attention: queries must be (batch=2, heads=2, seq_q=5, head_dim=3), got (2, 2, 5, 2)");
}

TEST_F(EncoderInputErrors, a_raised_cancel_flag_stops_it_and_progress_counts_layers) {
  std::vector<std::pair<Index, Index>> reports;
  std::atomic<bool> cancel{false};
  Execution execution;
  execution.cancel = &cancel;
  execution.progress = [&](Index done, Index total) { reports.emplace_back(done, total); };
  encoder_.forward({ids_.cview(), {}, {}}, {}, execution);
  EXPECT_EQ(reports, (std::vector<std::pair<Index, Index>>{{1, 2}, {2, 2}}));
  cancel = true;
  EXPECT_THROW(encoder_.forward({ids_.cview(), {}, {}}, {}, execution), Cancelled);
}

}  // namespace
}  // namespace headwise
