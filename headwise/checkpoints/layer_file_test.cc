// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/layer_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "headwise/tensor/errors.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

template <class T>
std::string weights_of(AnyLayer<T>& layer) {
  std::string bytes;
  std::visit(
      [&](auto& any) {
        for (const NamedTensor& tensor : any.state()) {
          bytes += tensor.name;
          bytes.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes());
        }
      },
      layer);
  return bytes;
}

// (1, 3, 4) numbers through the layer.
template <class T>
std::vector<T> output_of(const AnyLayer<T>& layer) {
  Tensor<T, 3> x({1, 3, 4});
  for (Index i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<T>(0.1 * i * (i % 3 - 1));
  const Tensor<T, 3> out = std::visit([&](const auto& any) { return any.forward(x.cview()); }, layer);
  return {out.data(), out.data() + out.elements()};
}

std::vector<AnyLayer<float>> one_of_each() {
  std::vector<AnyLayer<float>> layers;
  layers.emplace_back(MultiHeadAttention<float>(4, 6,
                                                {.context_length = 8,
                                                 .dropout = 0.25,
                                                 .num_heads = 4,
                                                 .qkv_bias = true,
                                                 .causal = false,
                                                 .num_kv_heads = 2,
                                                 .head_dim = 3,
                                                 .seed = 5}));
  layers.emplace_back(MultiHeadAttention<float>(4, 6, {.num_heads = 3, .out_proj = false, .seed = 1}));
  layers.emplace_back(CausalSelfAttention<float>(4, 2, 16, 0.1, true, 7));
  layers.emplace_back(MultiHeadAttentionWrapper<float>::with_head_width(4, 2, 3, {.dropout = 0.5, .seed = 9}));
  layers.emplace_back(MultiHeadAttentionWrapper<float>::with_total_width(4, 6, 2, {.out_proj = true, .seed = 9}));
  layers.emplace_back(MultiHeadAttentionLayer<float>(4, 6, std::nullopt, 0.0, 2, true, false, 3));
  return layers;
}

TEST(LayerFile, EveryKindComesBackWithTheSameWeightsFactsAndOutputs) {
  const TemporaryFolder folder;
  for (AnyLayer<float>& layer : one_of_each()) {
    save_layer(folder.file("layer"), layer);
    AnyLayer<float> back = load_layer<float>(folder.file("layer"));
    ASSERT_EQ(back.index(), layer.index());
    EXPECT_EQ(weights_of(back), weights_of(layer));
    EXPECT_EQ(output_of(back), output_of(layer));
    std::visit(
        [&](const auto& got) {
          std::visit(
              [&](const auto& expected) {
                EXPECT_EQ(got.config().who, expected.config().who);
                EXPECT_EQ(got.config().dropout, expected.config().dropout);
                EXPECT_EQ(got.config().causal, expected.config().causal);
                EXPECT_EQ(got.config().context_length, expected.config().context_length);
                EXPECT_EQ(got.sizes().heads, expected.sizes().heads);
                EXPECT_EQ(got.sizes().kv_heads, expected.sizes().kv_heads);
                EXPECT_EQ(got.sizes().head_dim, expected.sizes().head_dim);
                EXPECT_EQ(got.seed(), expected.seed());
              },
              layer);
        },
        back);
  }
}

TEST(LayerFile, ThePackedLayerIsTheFileAndUnpacks) {
  const TemporaryFolder folder;
  for (AnyLayer<float>& layer : one_of_each()) {
    save_layer(folder.file("layer"), layer);
    const std::string packed = pack_layer(layer);
    EXPECT_EQ(packed, folder.read("layer"));
    AnyLayer<float> back = unpack_layer<float>("packed", std::as_bytes(std::span(packed)));
    ASSERT_EQ(back.index(), layer.index());
    EXPECT_EQ(weights_of(back), weights_of(layer));
    EXPECT_EQ(output_of(back), output_of(layer));
    EXPECT_EQ(message_of([&] { unpack_layer<float>("packed", std::as_bytes(std::span(packed)).first(7)); }),
              "packed: file has 7 bytes, too few for the 8 of the header length (byte 7)");
  }
}

TEST(LayerFile, DoubleStaysDoubleAndFloatWidensButNeverNarrows) {
  const TemporaryFolder folder;
  AnyLayer<double> layer = CausalSelfAttention<double>(4, 2, {}, 0, false, 1);
  save_layer(folder.file("d"), layer);
  EXPECT_EQ(layer_file_dtype(folder.file("d")), DType::kFloat64);
  AnyLayer<double> back = load_layer<double>(folder.file("d"));
  EXPECT_EQ(weights_of(back), weights_of(layer));
  EXPECT_EQ(message_of([&] { load_layer<float>(folder.file("d")); }),
            folder.file("d") +
                ": CausalSelfAttention.load: W_query.weight is float64, the parameters are float32; convert it first");
  AnyLayer<float> narrow = CausalSelfAttention<float>(4, 2, {}, 0, false, 1);
  save_layer(folder.file("f"), narrow);
  EXPECT_EQ(layer_file_dtype(folder.file("f")), DType::kFloat32);
  AnyLayer<double> wide = load_layer<double>(folder.file("f"));
  const auto source = std::get<1>(narrow).parameters();
  const auto target = std::get<1>(wide).parameters();
  for (std::size_t i = 0; i < source[0].values().size(); ++i) {
    EXPECT_EQ(static_cast<double>(source[0].value[i]), target[0].value[i]);
  }
}

TEST(LayerFile, SixteenBitWeightsAreWidenedExactly) {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> bits{0x3F80, 0xBF00, 0x0001, 0x4049};
  std::vector<NamedTensor> tensors;
  for (const char* name : {"W_query.weight", "W_key.weight", "W_value.weight"}) {
    tensors.push_back({name, DType::kBFloat16, {2, 2}, reinterpret_cast<const std::byte*>(bits.data())});
  }
  write_safetensors(folder.file("l"), tensors);
  EXPECT_EQ(layer_file_dtype(folder.file("l")), DType::kFloat32);
  AnyLayer<float> layer =
      load_layer<float>(folder.file("l"), {.kind = LayerKind::kCausalSelfAttention, .dropout = 0.0});
  const std::span<float> values = std::get<1>(layer).parameters()[0].values();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{1, -0.5F, 0x1p-133F, 3.140625F}));
  tensors[1].dtype = DType::kInt16;
  write_safetensors(folder.file("l"), tensors);
  EXPECT_EQ(message_of([&] { layer_file_dtype(folder.file("l")); }),
            folder.file("l") +
                ": tensor 'W_key.weight' is I16; the weights of a layer are all float64, or float32, float16 and "
                "bfloat16");
}

class ForeignFile : public testing::Test {
 protected:
  // The state_dict of the book's MultiHeadAttention(4, 6): no metadata, and a stored mask.
  void SetUp() override {
    AnyLayer<float> layer = MultiHeadAttention<float>(4, 6, {.num_heads = 2, .seed = 2});
    std::vector<NamedTensor> tensors = std::get<0>(layer).state();
    mask_.assign(64, 1.0F);
    tensors.push_back({"mask", DType::kFloat32, {8, 8}, reinterpret_cast<const std::byte*>(mask_.data())});
    write_safetensors(path_, tensors, {{"format", "pt"}});
    expected_ = output_of(layer);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("book.safetensors");
  std::vector<float> mask_, expected_;
};

TEST_F(ForeignFile, LoadsWhenTheFactsAreGiven) {
  const AnyLayer<float> layer = load_layer<float>(path_, {.num_heads = 2, .causal = true, .dropout = 0.0});
  EXPECT_EQ(output_of(layer), expected_);
}

TEST_F(ForeignFile, EachMissingFactIsNamed) {
  const auto refusal = [&](const LayerFacts& facts) { return message_of([&] { load_layer<float>(path_, facts); }); };
  EXPECT_EQ(refusal({}), "load: num_heads is neither stored in " + path_ + " nor given");
  EXPECT_EQ(refusal({.num_heads = 2}), "load: causal is neither stored in " + path_ + " nor given");
  EXPECT_EQ(refusal({.num_heads = 2, .causal = true}), "load: dropout is neither stored in " + path_ + " nor given");
  EXPECT_EQ(refusal({.num_heads = 4, .causal = true, .dropout = 0.0}),
            path_ + ": the 6 rows of the queries do not make 4 heads");
}

TEST_F(ForeignFile, AKindThatContradictsTheNamesIsAnError) {
  EXPECT_EQ(message_of([&] { load_layer<float>(path_, {.kind = LayerKind::kMultiHeadAttentionLayer}); }),
            "load: kind=MultiHeadAttentionLayer was given, but " + path_ + " says MultiHeadAttention");
}

TEST(LayerFile, AGivenFactThatContradictsTheFileIsAnError) {
  const TemporaryFolder folder;
  AnyLayer<float> layer = MultiHeadAttention<float>(4, 6, {.dropout = 0.1, .num_heads = 2, .seed = 2});
  const std::string path = folder.file("l");
  save_layer(path, layer);
  EXPECT_EQ(message_of([&] { load_layer<float>(path, {.num_heads = 3}); }),
            "load: num_heads=3 was given, but " + path + " says 2");
  EXPECT_EQ(message_of([&] { load_layer<float>(path, {.causal = false}); }),
            "load: causal=false was given, but " + path + " says true");
  const AnyLayer<float> other = load_layer<float>(path, {.dropout = 0.3, .context_length = 5});
  EXPECT_EQ(std::get<0>(other).config().dropout, 0.3);
  EXPECT_EQ(std::get<0>(other).config().context_length, 5);
}

TEST(LayerFile, NamesThatFitTwoClassesNeedTheKind) {
  const TemporaryFolder folder;
  AnyLayer<float> layer = CausalSelfAttention<float>(4, 2, {}, 0, false, 1);
  const std::string path = folder.file("l");
  write_safetensors(path, std::get<1>(layer).state());
  EXPECT_EQ(message_of([&] { load_layer<float>(path); }),
            "load: kind (MultiHeadAttention or CausalSelfAttention) is neither stored in " + path + " nor given");
  AnyLayer<float> back = load_layer<float>(path, {.kind = LayerKind::kCausalSelfAttention, .dropout = 0.0});
  EXPECT_EQ(weights_of(back), weights_of(layer));
}

struct Claim {
  const char* header;
  std::size_t data_bytes;
  const char* message;
};

TEST(LayerFile, AFileThatClaimsALargerLayerThanItHoldsIsRefusedBeforeMemoryIsTaken) {
  const TemporaryFolder folder;
  const Claim claims[] = {
      {R"({"W_query.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
       R"("W_key.weight":{"dtype":"F32","shape":[1048576,0],"data_offsets":[4,4]}})",
       4, "tensor 'W_key.weight' must be (d_out, d_in=1), got (1048576, 0)"},
      {R"({"W_query.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
       R"("W_key.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]},)"
       R"("out_proj.weight":{"dtype":"F32","shape":[16777216,0],"data_offsets":[8,8]}})",
       8, "tensor 'out_proj.weight' must be (d_out, heads * head_dim=1), got (16777216, 0)"},
      {R"({"heads.0.W_query.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
       R"("heads.0.W_key.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]},)"
       R"("heads.1.W_query.weight":{"dtype":"F32","shape":[0,1],"data_offsets":[8,8]}})",
       8, "tensor 'heads.1.W_query.weight' must be (1, 1) as that of head 0, got (0, 1)"},
      {R"({"W_query.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "tensor 'W_query.weight' must be (d_out, d_in), got (1,)"},
      {R"({"other":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "there is no attention layer: looked for 'W_query.weight', 'heads.0.W_query.weight' and 'query_weight.weight' "
       "among its 1 tensors"},
  };
  for (const Claim& claim : claims) {
    const std::string path = folder.write("l", safetensors_bytes(claim.header, std::string(claim.data_bytes, '\0')));
    EXPECT_EQ(message_of([&] { load_layer<float>(path, {.num_heads = 1, .causal = true, .dropout = 0.0}); }),
              path + ": " + claim.message);
  }
}

TEST(LayerFile, MetadataThatIsNoFactIsRefused) {
  const TemporaryFolder folder;
  AnyLayer<float> layer = CausalSelfAttention<float>(4, 2, {}, 0, false, 1);
  const std::string path = folder.file("l");
  const auto refusal = [&](const std::string& key, const std::string& value) {
    write_safetensors(
        path, std::get<1>(layer).state(),
        {{"format", "headwise-layer"}, {"version", "1"}, {"kind", "CausalSelfAttention"}, {"dropout", "0"}});
    std::map<std::string, std::string> metadata = SafetensorsFile(path).metadata();
    metadata[key] = value;
    write_safetensors(path, std::get<1>(layer).state(), metadata);
    return message_of([&] { load_layer<float>(path); });
  };
  EXPECT_EQ(refusal("num_heads", "1.5"), path + ": metadata 'num_heads' must be a whole number, got '1.5'");
  EXPECT_EQ(refusal("num_heads", ""), path + ": metadata 'num_heads' must be a whole number, got ''");
  EXPECT_EQ(refusal("num_heads", "99999999999999999999"),
            path + ": metadata 'num_heads' must be a whole number, got '99999999999999999999'");
  EXPECT_EQ(refusal("causal", "yes"), path + ": metadata 'causal' must be true or false, got 'yes'");
  EXPECT_EQ(refusal("dropout", "much"), path + ": metadata 'dropout' must be a number, got 'much'");
  EXPECT_EQ(refusal("dropout", "1.5"), path + ": CausalSelfAttention: dropout must be in [0, 1), got 1.5");
  EXPECT_EQ(refusal("kind", "Other"),
            path +
                ": metadata: kind must be one of MultiHeadAttention, CausalSelfAttention, MultiHeadAttentionWrapper, "
                "MultiHeadAttentionLayer, got 'Other'");
  EXPECT_EQ(refusal("version", "2"), path + ": layer file version '2' is unknown; headwise reads version 1");
  EXPECT_EQ(refusal("num_heads", "2"), "load: num_heads=2 was given, but " + path + " says 1");
}

}  // namespace
}  // namespace headwise
