// SPDX-License-Identifier: Apache-2.0
// The faces are one layer: equal bits however the heads are stored, and the two widths of d_out.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/layers/causal_self_attention.h"
#include "headwise/layers/multi_head_attention.h"
#include "headwise/layers/multi_head_attention_layer.h"
#include "headwise/layers/multi_head_attention_wrapper.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::random_tensor;
using testing::same_bits;

template <class T>
class Faces : public ::testing::Test {};
using WorkingTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Faces, WorkingTypes);

WrapperOptions wrapper_options(bool qkv_bias, bool out_proj, double dropout = 0) {
  WrapperOptions options;
  options.qkv_bias = qkv_bias;
  options.out_proj = out_proj;
  options.dropout = dropout;
  options.seed = 31;
  return options;
}

TYPED_TEST(Faces, a_wrapper_equals_separate_heads_bit_for_bit) {
  using T = TypeParam;
  for (const Index seq : {1, 3, 63, 65}) {
    for (const bool qkv_bias : {false, true}) {
      const auto wrapper = MultiHeadAttentionWrapper<T>::with_head_width(5, 3, 4, wrapper_options(qkv_bias, false));
      const Tensor<T, 3> x = random_tensor<T, 3>({2, seq, 5}, 1);
      const Tensor<T, 3> out = wrapper.forward(x.view());
      ASSERT_EQ(out.shape(), (Shape<3>{2, seq, 12}));
      for (Index h = 0; h < 4; ++h) {
        const Tensor<T, 3> alone = wrapper.head(h).forward(x.view());
        EXPECT_TRUE(same_bits(alone, Tensor<T, 3>(out.cview().slice(2, 3 * h, 3 * h + 3)))) << "head " << h;
      }
    }
  }
}

TYPED_TEST(Faces, with_dropout_a_head_alone_is_told_its_place_and_gives_the_same_bits) {
  using T = TypeParam;
  const auto wrapper = MultiHeadAttentionWrapper<T>::with_head_width(5, 3, 4, wrapper_options(false, false, 0.4));
  const Tensor<T, 3> x = random_tensor<T, 3>({2, 9, 5}, 1);
  ForwardOptions<T> options;
  options.dropout.training = true;
  options.dropout.call = 3;
  const Tensor<T, 3> out = wrapper.forward(x.view(), {}, options);
  for (Index h = 0; h < 4; ++h) {
    options.dropout.head_offset = h;
    const Tensor<T, 3> alone = wrapper.head(h).forward(x.view(), {}, options);
    EXPECT_TRUE(same_bits(alone, Tensor<T, 3>(out.cview().slice(2, 3 * h, 3 * h + 3)))) << "head " << h;
  }
}

TYPED_TEST(Faces, wrapper_fused_and_split_again_are_equal_bit_for_bit) {
  using T = TypeParam;
  const Tensor<T, 3> x = random_tensor<T, 3>({2, 7, 5}, 1);
  for (const bool out_proj : {false, true}) {
    auto wrapper = MultiHeadAttentionWrapper<T>::with_total_width(5, 12, 4, wrapper_options(true, out_proj));
    auto fused = wrapper.fuse();
    auto again = fused.split();
    const Tensor<T, 3> out = wrapper.forward(x.view());
    EXPECT_TRUE(same_bits(out, fused.forward(x.view())));
    EXPECT_TRUE(same_bits(out, again.forward(x.view())));
    EXPECT_EQ(fused.config().who, "MultiHeadAttention");
    EXPECT_EQ(fused.parameters()[0].name, "W_query.weight");
    EXPECT_EQ(fused.seed(), wrapper.seed());
    const auto before = wrapper.parameters(), after = again.parameters();
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].name, after[i].name);
      EXPECT_TRUE(std::equal(before[i].values().begin(), before[i].values().end(), after[i].value));
    }
  }
}

TYPED_TEST(Faces, a_weight_split_layer_goes_through_a_wrapper_and_back) {
  using T = TypeParam;
  MultiHeadAttentionOptions options;
  options.num_heads = 3;
  options.head_dim = 5;
  options.causal = false;
  options.out_bias = false;
  options.seed = 4;
  MultiHeadAttention<T> layer(4, 7, options);
  const Tensor<T, 3> x = random_tensor<T, 3>({2, 6, 4}, 1);
  const Tensor<T, 3> out = layer.forward(x.view());
  auto wrapper = layer.split();
  EXPECT_EQ(wrapper.parameters()[3].name, "heads.1.W_query.weight");
  EXPECT_TRUE(same_bits(out, wrapper.forward(x.view())));
  EXPECT_TRUE(same_bits(out, wrapper.fuse().forward(x.view())));
}

TYPED_TEST(Faces, a_conversion_is_a_copy_and_leaves_its_source_alone) {
  using T = TypeParam;
  auto wrapper = MultiHeadAttentionWrapper<T>::with_head_width(3, 2, 2, wrapper_options(false, false));
  auto fused = wrapper.fuse();
  fused.parameters()[0].value[0] += 1;
  EXPECT_NE(fused.parameters()[0].value[0], wrapper.parameters()[0].value[0]);
}

TYPED_TEST(Faces, head_names_are_rows_of_one_stacked_block) {
  using T = TypeParam;
  auto wrapper = MultiHeadAttentionWrapper<T>::with_head_width(5, 3, 4, wrapper_options(true, true));
  const auto parameters = wrapper.parameters();
  ASSERT_EQ(parameters.size(), 4U * 6U + 2U);
  EXPECT_EQ(parameters[0].name, "heads.0.W_query.weight");
  EXPECT_EQ(parameters[1].name, "heads.0.W_query.bias");
  EXPECT_EQ(parameters[6].name, "heads.1.W_query.weight");
  EXPECT_EQ(parameters[6].shape, (std::vector<Index>{3, 5}));
  EXPECT_EQ(parameters[6].value, parameters[0].value + 3 * 5);
  EXPECT_EQ(parameters[6].gradient, parameters[0].gradient + 3 * 5);
  EXPECT_EQ(parameters[24].name, "out_proj.weight");
  EXPECT_EQ(parameters[25].name, "out_proj.bias");
}

TYPED_TEST(Faces, both_readings_of_d_out) {
  using T = TypeParam;
  const Tensor<T, 3> x = random_tensor<T, 3>({1, 4, 3}, 1);
  const auto per_head = MultiHeadAttentionWrapper<T>::with_head_width(3, 2, 2, wrapper_options(false, false));
  EXPECT_EQ(per_head.forward(x.view()).shape(), (Shape<3>{1, 4, 4}));
  EXPECT_EQ(per_head.parameter_count(), 2 * 3 * 2 * 3);
  const auto total = MultiHeadAttentionWrapper<T>::with_total_width(3, 2, 2, wrapper_options(false, true));
  EXPECT_EQ(total.forward(x.view()).shape(), (Shape<3>{1, 4, 2}));
  EXPECT_EQ(total.parameter_count(), 2 * 3 * 1 * 3 + 2 * 2 + 2);
}

// Seed A's question: with one head the scores of all heads are added before the softmax, with H heads each is
// softmaxed alone.
TYPED_TEST(Faces, full_width_scores_are_the_sum_of_the_scores_of_the_heads) {
  using T = TypeParam;
  constexpr Index kSeq = 5, kHeads = 3, kWidth = 6;
  MultiHeadAttentionLayer<T> many(4, kWidth, {}, 0, kHeads, true, false, 8);
  MultiHeadAttentionLayer<T> one(4, kWidth, {}, 0, 1, true, false, 8);
  EXPECT_EQ(many.parameters()[0].name, "query_weight.weight");
  EXPECT_EQ(many.parameters()[1].name, "query_weight.bias");
  const Tensor<T, 3> x = random_tensor<T, 3>({1, kSeq, 4}, 1);
  Tensor<T, 4> queries(Shape<4>{1, kHeads, kSeq, 2}), keys(Shape<4>{1, kHeads, kSeq, 2});
  Tensor<T, 4> weights(Shape<4>{1, kHeads, kSeq, kSeq}), one_weights(Shape<4>{1, 1, kSeq, kSeq});
  LayerOutputs<T> extras;
  extras.weights = one_weights.view();
  one.forward(x.view(), {}, {}, nullptr, extras);
  extras.queries = queries.view();
  extras.keys = keys.view();
  extras.weights = weights.view();
  many.forward(x.view(), {}, {}, nullptr, extras);
  const auto head_score = [&](Index h, Index i, Index j) {
    return static_cast<double>(queries(0, h, i, 0)) * static_cast<double>(keys(0, h, j, 0)) +
           static_cast<double>(queries(0, h, i, 1)) * static_cast<double>(keys(0, h, j, 1));
  };
  for (Index i = 0; i < kSeq; ++i) {
    double whole_sum = 0, head_sums[kHeads] = {};
    const auto whole = [&](Index j) { return head_score(0, i, j) + head_score(1, i, j) + head_score(2, i, j); };
    for (Index j = 0; j < kSeq; ++j) {
      whole_sum += std::exp(whole(j) / std::sqrt(6.0));
      for (Index h = 0; h < kHeads; ++h) head_sums[h] += std::exp(head_score(h, i, j) / std::sqrt(2.0));
    }
    for (Index j = 0; j < kSeq; ++j) {
      EXPECT_NEAR(one_weights(0, 0, i, j), std::exp(whole(j) / std::sqrt(6.0)) / whole_sum, 1e-6);
      for (Index h = 0; h < kHeads; ++h) {
        EXPECT_NEAR(weights(0, h, i, j), std::exp(head_score(h, i, j) / std::sqrt(2.0)) / head_sums[h], 1e-6);
      }
    }
  }
}

TYPED_TEST(Faces, a_layer_built_without_a_seed_tells_the_one_it_chose) {
  using T = TypeParam;
  CausalSelfAttention<T> first(3, 2);
  CausalSelfAttention<T> second(3, 2, {}, 0, false, first.seed());
  const Tensor<T, 3> x = random_tensor<T, 3>({1, 4, 3}, 1);
  EXPECT_TRUE(same_bits(first.forward(x.view()), second.forward(x.view())));
  EXPECT_NE(CausalSelfAttention<T>(3, 2).seed(), CausalSelfAttention<T>(3, 2).seed());
}

}  // namespace
}  // namespace headwise
