// SPDX-License-Identifier: Apache-2.0
// Every wrong call of a layer and the whole text it gets.
#include "headwise/tensor/errors.h"

#include <gtest/gtest.h>

#include <limits>

#include "headwise/layers/causal_self_attention.h"
#include "headwise/layers/multi_head_attention.h"
#include "headwise/layers/multi_head_attention_layer.h"
#include "headwise/layers/multi_head_attention_wrapper.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;

MultiHeadAttentionOptions options_of(Index heads) {
  MultiHeadAttentionOptions options;
  options.num_heads = heads;
  options.seed = 1;
  return options;
}

template <class Error>
std::string construct(Index d_in, Index d_out, const MultiHeadAttentionOptions& options) {
  return error_text<Error>([&] { MultiHeadAttention<float>(d_in, d_out, options); });
}

TEST(ConstructionErrors, name_sizes_out_of_range) {
  EXPECT_EQ(construct<ArgumentError>(0, 4, options_of(2)), "MultiHeadAttention: d_in must be at least 1, got 0");
  EXPECT_EQ(construct<ArgumentError>(3, -4, options_of(2)), "MultiHeadAttention: d_out must be at least 1, got -4");
  EXPECT_EQ(construct<ArgumentError>(3, 4, options_of(0)), "MultiHeadAttention: num_heads must be at least 1, got 0");
  EXPECT_EQ(construct<ArgumentError>(3, 99999999, options_of(1)),
            "MultiHeadAttention: d_out must be at most 16777216, got 99999999");
  MultiHeadAttentionOptions options = options_of(2);
  options.num_kv_heads = 0;
  EXPECT_EQ(construct<ArgumentError>(3, 4, options), "MultiHeadAttention: num_kv_heads must be at least 1, got 0");
  options = options_of(2);
  options.head_dim = 0;
  EXPECT_EQ(construct<ArgumentError>(3, 4, options), "MultiHeadAttention: head_dim must be at least 1, got 0");
  options.head_dim = 9999999;
  EXPECT_EQ(construct<ArgumentError>(3, 4, options),
            "MultiHeadAttention: num_heads * head_dim must be at most 16777216, got 19999998");
  options = options_of(2);
  options.context_length = 0;
  EXPECT_EQ(construct<ArgumentError>(3, 4, options), "MultiHeadAttention: context_length must be at least 1, got 0");
}

TEST(ConstructionErrors, name_the_nearest_valid_head_counts) {
  EXPECT_EQ(construct<ShapeError>(3, 10, options_of(3)),
            "MultiHeadAttention: d_out=10 is not divisible by num_heads=3; nearest valid num_heads: 2, 5");
  MultiHeadAttentionOptions options = options_of(6);
  options.num_kv_heads = 4;
  EXPECT_EQ(construct<ShapeError>(3, 6, options),
            "MultiHeadAttention: num_heads=6 is not divisible by num_kv_heads=4; nearest valid num_kv_heads: 3, 6");
  EXPECT_EQ(error_text<ShapeError>([] { MultiHeadAttentionWrapper<float>::with_total_width(3, 1024, 24); }),
            "MultiHeadAttentionWrapper: d_out=1024 is not divisible by num_heads=24; nearest valid num_heads: 16, 32");
  EXPECT_EQ(error_text<ShapeError>([] { MultiHeadAttentionLayer<float>(3, 4, 6, 0, 3); }),
            "MultiHeadAttentionLayer: d_out=4 is not divisible by num_heads=3; nearest valid num_heads: 2, 4");
}

TEST(ConstructionErrors, name_a_dropout_out_of_range) {
  MultiHeadAttentionOptions options = options_of(2);
  options.dropout = 1;
  EXPECT_EQ(construct<ArgumentError>(3, 4, options), "MultiHeadAttention: dropout must be in [0, 1), got 1");
  EXPECT_EQ(error_text<ArgumentError>([] { CausalSelfAttention<float>(3, 4, 6, -0.1); }),
            "CausalSelfAttention: dropout must be in [0, 1), got -0.1");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_text<ArgumentError>([&] { CausalSelfAttention<float>(3, 4, 6, nan); }),
            "CausalSelfAttention: dropout must be in [0, 1), got nan");
}

TEST(ConstructionErrors, name_a_head_width_that_needs_an_output_projection) {
  MultiHeadAttentionOptions options = options_of(2);
  options.head_dim = 3;
  options.out_proj = false;
  EXPECT_EQ(construct<ArgumentError>(3, 4, options),
            "MultiHeadAttention: without out_proj d_out must be num_heads * head_dim = 2 * 3 = 6, got 4");
}

TEST(ConstructionErrors, of_the_wrapper_speak_of_the_width_of_one_head) {
  EXPECT_EQ(error_text<ArgumentError>([] { MultiHeadAttentionWrapper<float>::with_head_width(3, -2, 2); }),
            "MultiHeadAttentionWrapper: d_out must be at least 1, got -2");
  EXPECT_EQ(error_text<ArgumentError>([] { MultiHeadAttentionWrapper<float>::with_head_width(3, 2, 0); }),
            "MultiHeadAttentionWrapper: num_heads must be at least 1, got 0");
  EXPECT_EQ(error_text<ArgumentError>([] { MultiHeadAttentionWrapper<float>::with_head_width(3, 1 << 20, 64); }),
            "MultiHeadAttentionWrapper: num_heads * d_out must be at most 16777216, got 67108864");
}

TEST(ConversionErrors, say_what_cannot_be_converted) {
  MultiHeadAttentionOptions options = options_of(4);
  options.num_kv_heads = 2;
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(3, 4, options).split(); }),
            "MultiHeadAttention.split: needs num_kv_heads == num_heads, got num_kv_heads=2 and num_heads=4");
  const auto wrapper = MultiHeadAttentionWrapper<float>::with_head_width(3, 2, 2);
  EXPECT_EQ(error_text<ArgumentError>([&] { wrapper.head(2); }),
            "MultiHeadAttentionWrapper.head: index must be in 0..1, got 2");
  options = options_of(2);
  options.causal = false;
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(3, 4, options).split().head(0); }),
            "MultiHeadAttentionWrapper.head: the heads are not causal");
}

class CallErrors : public ::testing::Test {
 protected:
  CallErrors()
      : layer_(3, 4, [] {
          MultiHeadAttentionOptions options = options_of(2);
          options.context_length = 6;
          return options;
        }()) {}

  template <class Error>
  std::string forward(const Shape<3>& shape, const ForwardOptions<float>& options = {},
                      const LayerOutputs<float>& extras = {}) {
    const Tensor<float, 3> x(shape);
    return error_text<Error>([&] { layer_.forward(x.view(), {}, options, nullptr, extras); });
  }
  template <class Error>
  std::string cross(const Shape<3>& shape) {
    const Tensor<float, 3> x(Shape<3>{2, 5, 3}), keys_values(shape);
    return error_text<Error>([&] { layer_.forward(x.view(), keys_values.view()); });
  }

  MultiHeadAttention<float> layer_;
};

TEST_F(CallErrors, of_x_name_both_widths_and_both_lengths) {
  EXPECT_EQ(forward<ShapeError>({2, 5, 4}), "MultiHeadAttention: x must be (batch, seq, d_in=3), got (2, 5, 4)");
  EXPECT_EQ(forward<ArgumentError>({2, 7, 3}), "MultiHeadAttention: x has seq=7 tokens, above context_length=6");
  const Tensor<float, 3> wide(Shape<3>{1, 2, 512});
  EXPECT_EQ(error_text<ShapeError>([&] { CausalSelfAttention<float>(768, 64).forward(wide.view()); }),
            "CausalSelfAttention: x must be (batch, seq, d_in=768), got (1, 2, 512)");
}

TEST_F(CallErrors, of_keys_values) {
  EXPECT_EQ(cross<ShapeError>({2, 5, 4}),
            "MultiHeadAttention: keys_values must be (batch=2, seq_kv, d_in=3), got (2, 5, 4)");
  EXPECT_EQ(cross<ShapeError>({1, 5, 3}),
            "MultiHeadAttention: keys_values must be (batch=2, seq_kv, d_in=3), got (1, 5, 3)");
  EXPECT_EQ(cross<ArgumentError>({2, 7, 3}),
            "MultiHeadAttention: keys_values has seq=7 tokens, above context_length=6");
  EXPECT_EQ(cross<ArgumentError>({2, 4, 3}),
            "MultiHeadAttention: causal=True needs seq_q == seq_kv or a stated alignment, got seq_q=5 and seq_kv=4; "
            "give query_offset, causal=\"upper_left\" or causal=\"lower_right\"");
}

TEST_F(CallErrors, of_mask_bias_and_lengths) {
  Tensor<bool, 4> mask(Shape<4>{1, 3, 5, 5});
  ForwardOptions<float> options;
  options.visibility.mask = mask.cview();
  EXPECT_EQ(forward<ShapeError>({2, 5, 3}, options),
            "MultiHeadAttention: mask must be (batch=2, heads=2, seq_q=5, seq_kv=5) with any axis 1, got (1, 3, 5, 5)");
  Tensor<float, 4> bias(Shape<4>{1, 1, 5, 4});
  options = {};
  options.rule.bias = bias.cview();
  EXPECT_EQ(forward<ShapeError>({2, 5, 3}, options),
            "MultiHeadAttention: bias must be (batch=2, heads=2, seq_q=5, seq_kv=5) with any axis 1, got (1, 1, 5, 4)");
  const Index lengths[] = {5, 6};
  options = {};
  options.visibility.kv_lengths = lengths;
  EXPECT_EQ(forward<ArgumentError>({2, 5, 3}, options),
            "MultiHeadAttention: kv_lengths must be in 0..seq_kv=5, got 6 at batch entry 1");
  options.visibility.kv_lengths = std::span<const Index>(lengths, 1);
  EXPECT_EQ(forward<ShapeError>({2, 5, 3}, options), "MultiHeadAttention: kv_lengths must be (batch=2,), got (1,)");
}

TEST_F(CallErrors, of_outputs) {
  Tensor<float, 4> wrong(Shape<4>{2, 2, 5, 3});
  const auto with = [&](TensorView<float, 4> LayerOutputs<float>::*member) {
    LayerOutputs<float> extras;
    extras.*member = wrong.view();
    return forward<ShapeError>({2, 5, 3}, {}, extras);
  };
  EXPECT_EQ(with(&LayerOutputs<float>::queries),
            "MultiHeadAttention: queries must be (batch=2, heads=2, seq_q=5, head_dim=2), got (2, 2, 5, 3)");
  EXPECT_EQ(with(&LayerOutputs<float>::keys),
            "MultiHeadAttention: keys must be (batch=2, kv_heads=2, seq_kv=5, head_dim=2), got (2, 2, 5, 3)");
  EXPECT_EQ(with(&LayerOutputs<float>::values),
            "MultiHeadAttention: values must be (batch=2, kv_heads=2, seq_kv=5, head_dim=2), got (2, 2, 5, 3)");
  EXPECT_EQ(with(&LayerOutputs<float>::context),
            "MultiHeadAttention: context must be (batch=2, heads=2, seq_q=5, head_dim=2), got (2, 2, 5, 3)");
  const Tensor<float, 3> x(Shape<3>{2, 5, 3});
  Tensor<float, 3> out(Shape<3>{2, 5, 3});
  EXPECT_EQ(error_text<ShapeError>([&] { layer_.forward_into(x.view(), {}, {}, out.view(), nullptr, {}, {}); }),
            "MultiHeadAttention: out must be (batch=2, seq=5, d_out=4), got (2, 5, 3)");
}

TEST_F(CallErrors, of_backward) {
  const Tensor<float, 3> x(Shape<3>{2, 5, 3}), grad_out(Shape<3>{2, 5, 4});
  Tensor<float, 3> grad_x(Shape<3>{2, 5, 3}), wrong(Shape<3>{2, 4, 3});
  Activations<float> saved;
  const auto text = [&](auto tag, TensorView<const float, 3> grad, TensorView<float, 3> to_x,
                        TensorView<float, 3> to_kv) {
    return error_text<typename decltype(tag)::type>([&] { layer_.backward(saved, grad, to_x, to_kv); });
  };
  const std::type_identity<StateError> state;
  const std::type_identity<ShapeError> shape;
  const std::type_identity<ArgumentError> argument;
  EXPECT_EQ(text(state, grad_out.view(), grad_x.view(), {}),
            "MultiHeadAttention.backward: the activations hold no forward");
  layer_.forward(x.view(), {}, {}, &saved);
  EXPECT_EQ(text(shape, wrong.view(), grad_x.view(), {}),
            "MultiHeadAttention.backward: grad_out must be (batch=2, seq=5, d_out=4), got (2, 4, 3)");
  EXPECT_EQ(text(shape, grad_out.view(), wrong.view(), {}),
            "MultiHeadAttention.backward: grad_x must be (batch=2, seq=5, d_in=3), got (2, 4, 3)");
  EXPECT_EQ(text(argument, grad_out.view(), grad_x.view(), wrong.view()),
            "MultiHeadAttention.backward: grad_keys_values needs a forward with keys_values");
  layer_.forward(x.view(), x.view(), {}, &saved);
  EXPECT_EQ(text(shape, grad_out.view(), grad_x.view(), wrong.view()),
            "MultiHeadAttention.backward: grad_keys_values must be (batch=2, seq_kv=5, d_in=3), got (2, 4, 3)");
}

TEST_F(CallErrors, of_activations_that_come_from_another_layer_or_hold_a_refused_forward) {
  const Tensor<float, 3> x(Shape<3>{2, 5, 3}), grad_out(Shape<3>{2, 5, 4}), too_long(Shape<3>{2, 7, 3});
  Activations<float> saved;
  const auto backward = [&](AttentionLayer<float>& layer) { layer.backward(saved, grad_out.view(), {}); };
  layer_.forward(x.view(), {}, {}, &saved);
  MultiHeadAttention<float> four_heads(3, 4, options_of(4)), wider(3, 8, options_of(2)), deeper(5, 4, options_of(2));
  EXPECT_EQ(error_text<ShapeError>([&] { backward(four_heads); }),
            "MultiHeadAttention.backward: saved.row_max must be (batch=2, heads=4, seq=5), got (2, 2, 5)");
  EXPECT_EQ(error_text<ShapeError>([&] { backward(wider); }),
            "MultiHeadAttention.backward: saved.projected must be (batch=2, seq=5, rows=24), got (2, 5, 12)");
  EXPECT_EQ(error_text<ShapeError>([&] { backward(deeper); }),
            "MultiHeadAttention.backward: saved.x must be (batch=2, seq=5, d_in=5), got (2, 5, 3)");
  const Index lengths[] = {1};
  ForwardOptions<float> refused;
  refused.visibility.kv_lengths = lengths;
  EXPECT_THROW(layer_.forward(x.view(), {}, refused, &saved), ShapeError);
  EXPECT_EQ(error_text<StateError>([&] { backward(layer_); }),
            "MultiHeadAttention.backward: the activations hold no forward");
}

TEST(LayerWithoutGradients, refuses_backward_and_has_none_to_show) {
  AttentionConfig config;
  config.d_in = config.d_out = 4;
  config.gradients = Gradients::kNone;
  AttentionLayer<float> layer(config, {});
  const Tensor<float, 3> x(Shape<3>{1, 2, 4});
  Activations<float> saved;
  layer.forward(x.view(), {}, {}, &saved);
  EXPECT_EQ(error_text<StateError>([&] { layer.backward(saved, x.view(), {}); }),
            "MultiHeadAttention.backward: the layer was built without gradients");
  EXPECT_EQ(layer.parameters()[0].gradient, nullptr);
  EXPECT_TRUE(layer.parameters()[0].gradients().empty());
}

TEST(Cancellation, stops_a_forward_and_leaves_the_activations_incomplete) {
  MultiHeadAttention<float> layer(3, 4, options_of(2));
  const Tensor<float, 3> x(Shape<3>{1, 2, 3});
  Activations<float> saved;
  layer.forward(x.view(), {}, {}, &saved);
  const std::atomic<bool> cancel{true};
  Execution execution;
  execution.cancel = &cancel;
  EXPECT_THROW(layer.forward(x.view(), {}, {}, &saved, {}, execution), Cancelled);
  EXPECT_FALSE(saved);
}

}  // namespace
}  // namespace headwise
