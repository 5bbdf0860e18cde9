// SPDX-License-Identifier: Apache-2.0
// The layer's forward against an independent computation in plain loops, over awkward sizes and every option.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "headwise/layers/multi_head_attention.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::expect_near;
using testing::random_tensor;
using testing::same_bits;

// Whether query i of a batch entry and head may see key j.
using Sees = std::function<bool(Index batch, Index head, Index i, Index j)>;

// out[o] = sum of x[i] * weight[o, i] + bias[o]; `bias` may be null.
std::vector<double> project(const std::vector<double>& x, const float* weight, const float* bias, Index d_out) {
  std::vector<double> out(d_out);
  for (Index o = 0; o < d_out; ++o) {
    out[o] = bias == nullptr ? 0.0 : bias[o];
    for (std::size_t i = 0; i < x.size(); ++i) out[o] += x[i] * weight[o * static_cast<Index>(x.size()) + i];
  }
  return out;
}

std::vector<double> token(const TensorView<const float, 3>& x, Index b, Index i) {
  std::vector<double> values(x.size(2));
  for (Index d = 0; d < x.size(2); ++d) values[d] = x(b, i, d);
  return values;
}

// The whole layer in double, token by token; names are looked up, so the stacked storage is not trusted.
Tensor<float, 3> plain_forward(MultiHeadAttention<float> layer, TensorView<const float, 3> x,
                               TensorView<const float, 3> keys_values, const Sees& sees) {
  const auto find = [&](const std::string& name) -> const float* {
    for (const auto& parameter : layer.parameters()) {
      if (parameter.name == name) return parameter.value;
    }
    return nullptr;
  };
  const AttentionSizes sizes = layer.sizes();
  const Index width = sizes.head_dim, d_out = layer.config().d_out, group = sizes.heads / sizes.kv_heads;
  Tensor<float, 3> out(Shape<3>{x.size(0), x.size(1), d_out});
  for (Index b = 0; b < x.size(0); ++b) {
    std::vector<std::vector<double>> keys, values;
    for (Index j = 0; j < keys_values.size(1); ++j) {
      const auto source = token(keys_values, b, j);
      keys.push_back(project(source, find("W_key.weight"), find("W_key.bias"), sizes.kv_width()));
      values.push_back(project(source, find("W_value.weight"), find("W_value.bias"), sizes.kv_width()));
    }
    for (Index i = 0; i < x.size(1); ++i) {
      const auto query = project(token(x, b, i), find("W_query.weight"), find("W_query.bias"), sizes.query_width());
      std::vector<double> merged(sizes.query_width());
      for (Index h = 0; h < sizes.heads; ++h) {
        const Index kv = h / group * width;
        double sum = 0;
        std::vector<double> weights(keys.size());
        for (std::size_t j = 0; j < keys.size(); ++j) {
          if (!sees(b, h, i, static_cast<Index>(j))) continue;
          double score = 0;
          for (Index d = 0; d < width; ++d) score += query[h * width + d] * keys[j][kv + d];
          weights[j] = std::exp(score / std::sqrt(static_cast<double>(width)));
          sum += weights[j];
        }
        for (std::size_t j = 0; j < keys.size(); ++j) {
          if (weights[j] == 0) continue;
          for (Index d = 0; d < width; ++d) merged[h * width + d] += weights[j] / sum * values[j][kv + d];
        }
      }
      const auto row = project(merged, find("out_proj.weight"), find("out_proj.bias"), d_out);
      for (Index o = 0; o < d_out; ++o) out(b, i, o) = static_cast<float>(row[o]);
    }
  }
  return out;
}

bool causal(Index, Index, Index i, Index j) { return j <= i; }
bool all(Index, Index, Index, Index) { return true; }

MultiHeadAttentionOptions options_of(Index heads, bool is_causal = true) {
  MultiHeadAttentionOptions options;
  options.num_heads = heads;
  options.causal = is_causal;
  options.qkv_bias = true;
  options.seed = 6;
  return options;
}

TEST(AttentionLayer, agrees_with_plain_loops_over_awkward_sizes) {
  for (const Index seq : {1, 3, 63, 65}) {
    for (const Index head_dim : {1, 3, 63, 65}) {
      MultiHeadAttentionOptions options = options_of(2);
      options.head_dim = head_dim;
      const MultiHeadAttention<float> layer(3, 5, options);
      const Tensor<float, 3> x = random_tensor<float, 3>({2, seq, 3}, 1);
      expect_near(layer.forward(x.view()), plain_forward(layer, x.view(), x.view(), causal), 2e-6);
    }
  }
}

TEST(AttentionLayer, agrees_with_plain_loops_where_query_heads_share_key_heads) {
  MultiHeadAttentionOptions options = options_of(6);
  options.num_kv_heads = 2;
  const MultiHeadAttention<float> layer(7, 12, options);
  EXPECT_EQ(layer.parameter_count(), 12 * 8 + 2 * (4 * 8) + 12 * 13);
  const Tensor<float, 3> x = random_tensor<float, 3>({2, 5, 7}, 1);
  expect_near(layer.forward(x.view()), plain_forward(layer, x.view(), x.view(), causal), 2e-6);
}

TEST(AttentionLayer, agrees_with_plain_loops_in_cross_attention) {
  const MultiHeadAttention<float> layer(4, 6, options_of(3, false));
  const Tensor<float, 3> x = random_tensor<float, 3>({2, 3, 4}, 1), other = random_tensor<float, 3>({2, 8, 4}, 2);
  const Tensor<float, 3> out = layer.forward(x.view(), other.view());
  expect_near(out, plain_forward(layer, x.view(), other.view(), all), 2e-6);
  EXPECT_TRUE(same_bits(layer.forward(x.view(), x.view()), layer.forward(x.view())));
}

TEST(AttentionLayer, agrees_with_plain_loops_under_mask_lengths_and_window_together) {
  const MultiHeadAttention<float> layer(4, 6, options_of(3));
  const Tensor<float, 3> x = random_tensor<float, 3>({2, 7, 4}, 1);
  Tensor<bool, 4> mask(Shape<4>{2, 3, 7, 7});
  for (Index i = 0; i < mask.elements(); ++i) mask.data()[i] = i % 4 != 1;
  const Index lengths[] = {7, 4};
  ForwardOptions<float> options;
  options.visibility.mask = mask.cview();
  options.visibility.kv_lengths = lengths;
  options.visibility.window_left = 3;
  const Sees sees = [&](Index b, Index h, Index i, Index j) {
    return j <= i && i - j <= 3 && j < lengths[b] && mask(b, h, i, j);
  };
  expect_near(layer.forward(x.view(), {}, options), plain_forward(layer, x.view(), x.view(), sees), 2e-6);
}

TEST(AttentionLayer, gives_the_output_bias_alone_to_a_row_that_sees_no_key) {
  MultiHeadAttention<float> layer(4, 6, options_of(3));
  const Tensor<float, 3> x = random_tensor<float, 3>({1, 3, 4}, 1);
  const Index lengths[] = {0};
  ForwardOptions<float> options;
  options.visibility.kv_lengths = lengths;
  const Tensor<float, 3> out = layer.forward(x.view(), {}, options);
  const auto bias = layer.out_proj().bias_values({0, 6});
  for (Index i = 0; i < 3; ++i) {
    for (Index d = 0; d < 6; ++d) EXPECT_EQ(out(0, i, d), bias[d]);
  }
}

TEST(AttentionLayer, does_not_let_a_nan_behind_the_causal_edge_through) {
  const MultiHeadAttention<float> layer(4, 6, options_of(3));
  Tensor<float, 3> x = random_tensor<float, 3>({1, 5, 4}, 1);
  const Tensor<float, 3> before = layer.forward(x.view());
  x(0, 3, 2) = std::numeric_limits<float>::quiet_NaN();
  const Tensor<float, 3> after = layer.forward(x.view());
  for (Index i = 0; i < 5; ++i) {
    for (Index d = 0; d < 6; ++d) {
      EXPECT_TRUE(i < 3 ? after(0, i, d) == before(0, i, d) : std::isnan(after(0, i, d))) << i << ", " << d;
    }
  }
}

TEST(AttentionLayer, takes_any_strides_and_writes_any_strides) {
  const MultiHeadAttention<float> layer(4, 6, options_of(3));
  const Tensor<float, 3> stored = random_tensor<float, 3>({7, 2, 4}, 1);  // (seq, batch, d_in)
  const TensorView<const float, 3> x = stored.cview().transpose(0, 1);
  const Tensor<float, 3> expected = layer.forward(Tensor<float, 3>(x).view());
  EXPECT_TRUE(same_bits(layer.forward(x), expected));
  Tensor<float, 3> stored_out(Shape<3>{6, 7, 2});  // (d_out, seq, batch)
  layer.forward_into(x, {}, {}, stored_out.view().transpose(0, 2), nullptr, {}, {});
  EXPECT_TRUE(same_bits(Tensor<float, 3>(stored_out.cview().transpose(0, 2)), expected));
}

TEST(AttentionLayer, takes_an_empty_batch_and_an_empty_sequence) {
  MultiHeadAttention<float> layer(4, 6, options_of(3));
  for (const Shape<3> shape : {Shape<3>{0, 5, 4}, Shape<3>{2, 0, 4}}) {
    const Tensor<float, 3> x(shape);
    Activations<float> saved;
    const Tensor<float, 3> out = layer.forward(x.view(), {}, {}, &saved);
    EXPECT_EQ(out.shape(), (Shape<3>{shape[0], shape[1], 6}));
    Tensor<float, 3> grad_x(shape);
    layer.backward(saved, out.view(), grad_x.view());
  }
}

TEST(AttentionLayer, gives_extras_without_changing_a_bit_of_the_output) {
  const MultiHeadAttention<float> layer(4, 6, options_of(3));
  const Tensor<float, 3> x = random_tensor<float, 3>({2, 5, 4}, 1);
  Tensor<float, 4> weights(Shape<4>{2, 3, 5, 5}), values(Shape<4>{2, 3, 5, 2}), context(Shape<4>{2, 3, 5, 2});
  Tensor<float, 3> logsumexp(Shape<3>{2, 3, 5}), entropy(Shape<3>{2, 3, 5});
  LayerOutputs<float> extras;
  extras.weights = weights.view();
  extras.values = values.view();
  extras.context = context.view();
  extras.logsumexp = logsumexp.view();
  extras.statistics.entropy = entropy.view();
  Activations<float> saved;
  EXPECT_TRUE(same_bits(layer.forward(x.view(), {}, {}, &saved, extras), layer.forward(x.view())));
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 3; ++h) {
      for (Index i = 0; i < 5; ++i) {
        double sum = 0, mixed = 0, uncertainty = 0;
        for (Index j = 0; j < 5; ++j) {
          const double weight = weights(b, h, i, j);
          sum += weight;
          mixed += weight * values(b, h, j, 1);
          if (weight > 0) uncertainty -= weight * std::log(weight);
        }
        EXPECT_NEAR(sum, 1, 1e-6);
        EXPECT_NEAR(context(b, h, i, 1), mixed, 1e-6);
        EXPECT_NEAR(entropy(b, h, i), uncertainty, 1e-5);
        EXPECT_NEAR(logsumexp(b, h, i), saved.row_max(b, h, i) + std::log(saved.row_sum(b, h, i)), 1e-6);
      }
    }
  }
}

TEST(AttentionLayer, drops_weights_in_training_only_and_anew_for_each_call) {
  MultiHeadAttentionOptions with_dropout = options_of(3);
  with_dropout.dropout = 0.5;
  const MultiHeadAttention<float> layer(4, 6, with_dropout);
  const Tensor<float, 3> x = random_tensor<float, 3>({2, 9, 4}, 1);
  EXPECT_TRUE(same_bits(layer.forward(x.view()), MultiHeadAttention<float>(4, 6, options_of(3)).forward(x.view())));
  const auto train = [&](std::uint64_t call, std::optional<std::uint64_t> seed) {
    ForwardOptions<float> options;
    options.dropout = {true, seed, call, 0, 0};
    return layer.forward(x.view(), {}, options);
  };
  const Tensor<float, 3> first = train(1, {});
  EXPECT_FALSE(same_bits(first, layer.forward(x.view())));
  EXPECT_TRUE(same_bits(first, train(1, {})));
  EXPECT_TRUE(same_bits(first, train(1, layer.seed())));
  EXPECT_FALSE(same_bits(first, train(2, {})));
  EXPECT_FALSE(same_bits(first, train(1, layer.seed() + 1)));
}

TEST(AttentionLayer, returns_weights_before_dropout_unless_asked_for_those_after_it) {
  MultiHeadAttentionOptions with_dropout = options_of(1);
  with_dropout.dropout = 0.5;
  const MultiHeadAttention<float> layer(4, 6, with_dropout);
  const Tensor<float, 3> x = random_tensor<float, 3>({1, 9, 4}, 1);
  ForwardOptions<float> options;
  options.dropout.training = true;
  Tensor<float, 4> before(Shape<4>{1, 1, 9, 9}), after(Shape<4>{1, 1, 9, 9});
  LayerOutputs<float> extras;
  extras.weights = before.view();
  layer.forward(x.view(), {}, options, nullptr, extras);
  extras.weights = after.view();
  extras.weights_after_dropout = true;
  layer.forward(x.view(), {}, options, nullptr, extras);
  Index dropped = 0, kept = 0;
  for (Index i = 0; i < 9; ++i) {
    float sum = 0;
    for (Index j = 0; j <= i; ++j) {
      sum += before(0, 0, i, j);
      if (after(0, 0, i, j) == 0) ++dropped;
      if (after(0, 0, i, j) != 0) ++kept;
      EXPECT_TRUE(after(0, 0, i, j) == 0 || std::abs(after(0, 0, i, j) - 2 * before(0, 0, i, j)) < 1e-6);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  EXPECT_GT(dropped, 5);
  EXPECT_GT(kept, 5);
}

TEST(AttentionLayer, uses_activations_again_for_another_size_and_for_cross_attention) {
  const MultiHeadAttention<float> layer(4, 6, options_of(3, false));
  Activations<float> saved;
  EXPECT_FALSE(saved);
  for (const Index seq : {5, 3, 5}) {
    const Tensor<float, 3> x = random_tensor<float, 3>({2, seq, 4}, 1), other = random_tensor<float, 3>({2, 7, 4}, 2);
    layer.forward(x.view(), other.view(), {}, &saved);
    EXPECT_EQ(saved.projected_keys_values.shape(), (Shape<3>{2, 7, 12}));
    layer.forward(x.view(), {}, {}, &saved);
    EXPECT_TRUE(saved);
    EXPECT_EQ(saved.projected.shape(), (Shape<3>{2, seq, 18}));
    EXPECT_FALSE(saved.keys_values);
  }
}

}  // namespace
}  // namespace headwise
