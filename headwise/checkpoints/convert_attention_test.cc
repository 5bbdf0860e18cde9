// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/convert_attention.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/checkpoints/layer_file.h"
#include "headwise/checkpoints/load_attention.h"
#include "headwise/io/file_error.h"
#include "tests/support/checkpoint_file.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

class ConvertAttention : public testing::Test {
 protected:
  ConvertReport convert(const std::string& in, const std::string& out, const std::string& to,
                        std::optional<Index> heads = {}, std::optional<bool> causal = {}) {
    return convert_attention(folder_.file(in), folder_.file(out), {.to = to, .num_heads = heads, .causal = causal});
  }

  std::string refusal(const std::string& to, std::optional<Index> heads = {}) {
    std::string text = message_of([&] { convert("in", "out", to, heads); });
    if (text.starts_with(folder_.path())) text.erase(0, folder_.path().size() + 1);
    for (const std::string& name : folder_.names()) EXPECT_FALSE(name.starts_with("out")) << name;
    return text;
  }

  void save(const MultiHeadAttentionOptions& options, Index d_in = 6, Index d_out = 6) {
    AnyLayer<float> layer = MultiHeadAttention<float>(d_in, d_out, options);
    save_layer(folder_.file("in"), layer);
  }

  std::vector<std::string> names_in(const std::string& name) {
    std::vector<std::string> names;
    const SafetensorsFile file(folder_.file(name));
    for (const SafetensorsEntry& entry : file.header().entries) names.push_back(entry.name);
    return names;
  }

  std::vector<Index> shape_in(const std::string& name, const std::string& tensor) {
    const SafetensorsFile file(folder_.file(name));
    return file.tensor(tensor).shape;
  }

  TemporaryFolder folder_;
};

TEST_F(ConvertAttention, EveryFamilyGivesTheSameFileBack) {
  save({.context_length = 9, .dropout = 0.25, .num_heads = 3, .qkv_bias = true, .seed = 4});
  for (const std::string& to : convert_target_names()) {
    if (to == "seed") continue;  // has no output projection
    const ConvertReport report = convert("in", to, to);
    EXPECT_EQ(report.heads, 3);
    EXPECT_TRUE(report.notes.empty()) << to;
    convert(to, "back", "book");
    EXPECT_EQ(folder_.read("back"), folder_.read("in")) << to;
  }
  save({.num_heads = 3, .out_proj = false, .seed = 4});
  convert("in", "seed", "seed");
  convert("seed", "back", "book");
  EXPECT_EQ(folder_.read("back"), folder_.read("in"));
}

TEST_F(ConvertAttention, EveryPairOfFamiliesKeepsEveryBit) {
  save({.num_heads = 2, .qkv_bias = true, .seed = 4});
  std::vector<std::string> families = convert_target_names();
  std::erase(families, "seed");
  for (const std::string& first : families) {
    convert("in", "first", first);
    for (const std::string& second : families) {
      convert("first", "second", second);
      convert("second", "back", first);
      EXPECT_EQ(folder_.read("back"), folder_.read("first")) << first << " -> " << second;
    }
  }
}

TEST_F(ConvertAttention, NamesAndShapesAreThoseOfTheFamily) {
  save({.num_heads = 2, .seed = 4}, 6, 4);
  convert("in", "w", "wrapper");
  EXPECT_EQ(names_in("w"),
            (std::vector<std::string>{"heads.0.W_key.weight", "heads.0.W_query.weight", "heads.0.W_value.weight",
                                      "heads.1.W_key.weight", "heads.1.W_query.weight", "heads.1.W_value.weight",
                                      "out_proj.bias", "out_proj.weight"}));
  EXPECT_EQ(shape_in("w", "heads.1.W_key.weight"), (std::vector<Index>{2, 6}));
  convert("in", "q", "qkv");
  EXPECT_EQ(names_in("q"), (std::vector<std::string>{"proj.bias", "proj.weight", "qkv.weight"}));
  EXPECT_EQ(shape_in("q", "qkv.weight"), (std::vector<Index>{12, 6}));
  EXPECT_EQ(SafetensorsFile(folder_.file("q")).metadata().at("family"), "qkv");
}

TEST_F(ConvertAttention, AnAbsentBiasThatTheFamilyHasIsZeroAndSaid) {
  save({.num_heads = 2, .seed = 4});
  const ConvertReport torch = convert("in", "torch", "torch");
  EXPECT_EQ(torch.notes,
            (std::vector<std::string>{"in_proj_bias is zero: the layer has no bias of queries, keys and values"}));
  EXPECT_EQ(shape_in("torch", "in_proj_bias"), (std::vector<Index>{18}));
  save({.num_heads = 2, .out_bias = false, .seed = 4});
  EXPECT_TRUE(convert("in", "torch", "torch").notes.empty());
  const ConvertReport gpt2 = convert("in", "gpt2", "gpt2");
  EXPECT_EQ(gpt2.notes,
            (std::vector<std::string>{"c_attn.bias is zero: the layer has no bias of queries, keys and values",
                                      "c_proj.bias is zero: the layer has no bias of the output"}));
}

TEST_F(ConvertAttention, SixteenBitsStaySixteenBits) {
  std::vector<std::uint16_t> bits(16);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(0x3F80 + i);
  std::vector<NamedTensor> tensors;
  for (const char* part : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"}) {
    tensors.push_back({part, DType::kBFloat16, {4, 4}, reinterpret_cast<const std::byte*>(bits.data())});
  }
  write_safetensors(folder_.file("in"), tensors);
  const ConvertOptions options{.to = "torch", .from = {.family = "separate"}, .num_heads = 2};
  convert_attention(folder_.file("in"), folder_.file("out"), options);
  const SafetensorsFile file(folder_.file("out"));
  const NamedTensor whole = file.tensor("in_proj_weight");
  EXPECT_EQ(whole.dtype, DType::kBFloat16);
  EXPECT_EQ(whole.shape, (std::vector<Index>{12, 4}));
}

TEST_F(ConvertAttention, WhatAFamilyCannotHoldIsRefusedAndNothingWritten) {
  save({.num_heads = 6, .num_kv_heads = 3, .seed = 4});
  for (const char* to : {"wrapper", "seed", "torch", "qkv", "gpt2", "nanogpt"}) {
    EXPECT_EQ(refusal(to), std::string("convert: ") + to +
                               " has as many heads of keys as of queries, got num_heads=6 and num_kv_heads=3");
  }
  save({.num_heads = 2, .seed = 4}, 4, 6);
  for (const char* to : {"torch", "gpt2", "nanogpt"}) {
    EXPECT_EQ(refusal(to),
              std::string("convert: ") + to + " has one width, got d_in=4, heads * head_dim=6 and d_out=6");
  }
  EXPECT_EQ(refusal("seed"), "convert: seed has no output projection; the layer has one");
  save({.num_heads = 2, .out_proj = false, .seed = 4});
  for (const char* to : {"torch", "qkv", "gpt2", "nanogpt"}) {
    EXPECT_EQ(refusal(to), std::string("convert: ") + to + " has an output projection; the layer has none");
  }
  save({.num_heads = 2, .causal = false, .seed = 4});
  EXPECT_EQ(refusal("gpt2"), "convert: gpt2 is causal; the layer is not");
  EXPECT_EQ(refusal("nanogpt"), "convert: nanogpt is causal; the layer is not");
  EXPECT_EQ(refusal("gpt"), "convert: no layer can be written as 'gpt'; did you mean 'gpt2'?");
  EXPECT_EQ(
      refusal("onnx"),
      "convert: no layer can be written as 'onnx'; known: book, wrapper, seed, torch, qkv, gpt2, nanogpt, separate");
  EXPECT_EQ(refusal("wrapper", 3), "convert: num_heads=3 was given, but " + folder_.file("in") + " says 2");
}

TEST_F(ConvertAttention, HeadsAndMaskAreAskedForWhereTheyAreNeeded) {
  write_checkpoint(folder_.file("in"),
                   {{"W_query.weight", {4, 4}}, {"W_key.weight", {4, 4}}, {"W_value.weight", {4, 4}}});
  EXPECT_EQ(refusal("wrapper"), "convert: num_heads is needed for wrapper, and no file says it");
  EXPECT_EQ(refusal("wrapper", 3), "in: the 4 rows of the queries do not make 3 heads");
  EXPECT_EQ(refusal("wrapper", 2), "convert: causal is needed for wrapper, and no file says it");
  EXPECT_EQ(convert("in", "w", "wrapper", 2, false).tensors, 6U);
  EXPECT_EQ(SafetensorsFile(folder_.file("w")).metadata().at("causal"), "false");
  EXPECT_FALSE(convert("in", "seed", "seed").heads);
  EXPECT_FALSE(SafetensorsFile(folder_.file("seed")).metadata().contains("num_heads"));
}

TEST_F(ConvertAttention, PartsOfDifferentTypesDoNotGoIntoOneMatrix) {
  std::vector<double> wide(16, 1.5);
  const auto data = reinterpret_cast<const std::byte*>(wide.data());
  write_safetensors(folder_.file("in"),
                    std::vector<NamedTensor>{{"query_weight.weight", DType::kFloat64, {4, 4}, data},
                                             {"key_weight.weight", DType::kFloat32, {4, 4}, data},
                                             {"value_weight.weight", DType::kFloat32, {4, 4}, data}});
  EXPECT_EQ(convert("in", "book", "book").tensors, 3U);
  write_safetensors(folder_.file("in"), std::vector<NamedTensor>{{"q_proj.weight", DType::kFloat64, {4, 4}, data},
                                                                 {"k_proj.weight", DType::kFloat32, {4, 4}, data},
                                                                 {"v_proj.weight", DType::kFloat32, {4, 4}, data},
                                                                 {"out_proj.weight", DType::kFloat32, {4, 4}, data}});
  EXPECT_EQ(refusal("qkv"),
            "in: tensors 'queries' and 'keys' are float64 and float32; what lies in one matrix is of one type");
}

TEST_F(ConvertAttention, AFileMayBeReplacedByItsConversion) {
  save({.num_heads = 2, .qkv_bias = true, .seed = 4});
  const std::string before = folder_.read("in");
  convert("in", "in", "gpt2");
  convert("in", "in", "book");
  EXPECT_EQ(folder_.read("in"), before);
}

}  // namespace
}  // namespace headwise
