// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;

template <class T>
MultiHeadAttention<T> layer_of_seed(std::uint64_t seed) {
  MultiHeadAttentionOptions options;
  options.num_heads = 2;
  options.seed = seed;
  return {3, 4, options};
}

template <class T>
std::vector<T> values_of(MultiHeadAttention<T>& layer) {
  std::vector<T> values;
  for (const auto& p : layer.parameters()) values.insert(values.end(), p.values().begin(), p.values().end());
  return values;
}

NamedTensor named(std::vector<NamedTensor> state, const std::string& name) {
  return *std::find_if(state.begin(), state.end(), [&](const NamedTensor& t) { return t.name == name; });
}

// The text of the error, and no value of the layer changed.
template <class Error>
std::string refused(const std::vector<NamedTensor>& tensors) {
  auto layer = layer_of_seed<float>(2);
  const auto before = values_of(layer);
  const std::string text = error_text<Error>([&] { layer.load(tensors); });
  EXPECT_EQ(values_of(layer), before) << "something was written";
  return text;
}

TEST(State, goes_from_one_layer_into_another) {
  auto source = layer_of_seed<float>(1), target = layer_of_seed<float>(2);
  EXPECT_NE(values_of(source), values_of(target));
  target.load(source.state());
  EXPECT_EQ(values_of(source), values_of(target));
}

TEST(State, is_named_as_a_state_dict_and_in_its_order) {
  auto layer = layer_of_seed<double>(1);
  std::vector<std::string> names;
  for (const NamedTensor& tensor : layer.state()) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.dtype, DType::kFloat64);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"W_query.weight", "W_key.weight", "W_value.weight", "out_proj.weight",
                                             "out_proj.bias"}));
}

TEST(State, of_float32_is_widened_into_a_float64_layer_from_unaligned_bytes) {
  auto source = layer_of_seed<float>(1);
  auto target = layer_of_seed<double>(2);
  std::vector<NamedTensor> tensors = source.state();
  std::vector<std::vector<std::byte>> shifted;
  for (NamedTensor& tensor : tensors) {
    shifted.emplace_back(tensor.bytes() + 1);
    std::copy_n(tensor.data, tensor.bytes(), shifted.back().data() + 1);
    tensor.data = shifted.back().data() + 1;
  }
  target.load(tensors);
  const auto narrow = values_of(source);
  EXPECT_EQ(values_of(target), std::vector<double>(narrow.begin(), narrow.end()));
}

TEST(State, may_carry_stored_masks_which_are_ignored) {
  auto source = layer_of_seed<float>(1), target = layer_of_seed<float>(2);
  std::vector<NamedTensor> tensors = source.state();
  const float ones[36] = {};
  for (const char* name : {"mask", "heads.0.mask", "attn.bias", "h.0.attn.bias", "attn.masked_bias", "masked_bias"}) {
    tensors.push_back({name, DType::kFloat32, {6, 6}, reinterpret_cast<const std::byte*>(ones)});
  }
  target.load(tensors);
  EXPECT_EQ(values_of(source), values_of(target));
}

TEST(State, names_everything_missing_and_unexpected_and_given_twice) {
  auto source = layer_of_seed<float>(1);
  std::vector<NamedTensor> tensors = source.state();
  tensors[1].name = "W_keys.weight";
  tensors.erase(tensors.begin() + 4);
  tensors.push_back(tensors[0]);
  tensors.push_back(named(source.state(), "out_proj.bias"));
  tensors.back().name = "proj.bias";
  EXPECT_EQ(refused<ArgumentError>(tensors),
            "MultiHeadAttention.load: missing W_key.weight, out_proj.bias; unexpected W_keys.weight, proj.bias; "
            "given twice: W_query.weight");
}

TEST(State, of_another_shape_is_refused_with_both_shapes) {
  auto source = layer_of_seed<float>(1);
  std::vector<NamedTensor> tensors = source.state();
  tensors[1].shape = {3, 4};
  EXPECT_EQ(refused<ShapeError>(tensors),
            "MultiHeadAttention.load: W_key.weight must be (d_out=4, d_in=3), got (3, 4)");
  tensors = source.state();
  tensors[4].shape = {4, 1};
  EXPECT_EQ(refused<ShapeError>(tensors), "MultiHeadAttention.load: out_proj.bias must be (d_out=4,), got (4, 1)");
}

TEST(State, of_a_wider_or_foreign_type_is_refused) {
  auto source = layer_of_seed<double>(1);
  EXPECT_EQ(refused<DTypeError>(source.state()),
            "MultiHeadAttention.load: W_query.weight is float64, the parameters are float32; convert it first");
  auto narrow = layer_of_seed<float>(1);
  std::vector<NamedTensor> tensors = narrow.state();
  tensors[2].dtype = DType::kBFloat16;
  EXPECT_EQ(refused<DTypeError>(tensors),
            "MultiHeadAttention.load: W_value.weight is bfloat16, the parameters are float32; convert it first");
}

TEST(State, of_a_wrapper_is_named_by_head) {
  WrapperOptions options;
  options.seed = 1;
  auto source = MultiHeadAttentionWrapper<float>::with_head_width(3, 2, 2, options);
  options.seed = 2;
  auto target = MultiHeadAttentionWrapper<float>::with_head_width(3, 2, 2, options);
  std::vector<NamedTensor> tensors = source.state();
  EXPECT_EQ(tensors[3].name, "heads.1.W_query.weight");
  std::reverse(tensors.begin(), tensors.end());  // the order does not matter
  target.load(tensors);
  const auto x = testing::random_tensor<float, 3>({1, 4, 3}, 1);
  EXPECT_TRUE(testing::same_bits(source.forward(x.view()), target.forward(x.view())));
  tensors.pop_back();
  EXPECT_EQ(error_text<ArgumentError>([&] { target.load(tensors); }),
            "MultiHeadAttentionWrapper.load: missing heads.0.W_query.weight");
}

}  // namespace
}  // namespace headwise
