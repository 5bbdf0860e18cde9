// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/load_attention.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "tests/support/checkpoint_file.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

class LoadAttention : public testing::Test {
 protected:
  void write(const std::vector<ShapeOf>& shapes, const std::string& config = "",
             const std::map<std::string, std::string>& metadata = {}) {
    write_checkpoint(path_, shapes, metadata);
    if (!config.empty()) folder_.write("config.json", config);
  }

  // The message of a refused call, the file and config.json by their names alone.
  std::string refusal(const AttentionChoice& choice = {}, const LayerFacts& given = {}) {
    std::string text = message_of([&] { load_attention<float>(folder_.path(), choice, given); });
    const std::string folder = folder_.path() + "/";
    for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
      text.erase(at, folder.size());
    return text;
  }

  std::vector<float> weights(const AnyLayer<float>& layer, const std::string& name) {
    AnyLayer<float> copy = layer;
    return std::visit(
        [&](auto& any) {
          for (const Parameter<float>& parameter : any.parameters()) {
            if (parameter.name == name) return std::vector<float>(parameter.values().begin(), parameter.values().end());
          }
          return std::vector<float>();
        },
        copy);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("model.safetensors");
};

const std::string kGpt2 = R"({"model_type": "gpt2", "n_head": 2, "n_embd": 4, "attn_pdrop": 0.25})";
const std::string kBert =
    R"({"model_type": "bert", "num_attention_heads": 2, "hidden_size": 4, "attention_probs_dropout_prob": 0.5})";

TEST_F(LoadAttention, ConfigSaysWhatTheTensorsDoNot) {
  write(gpt2_layer("h.0.attn.", 4) + gpt2_layer("h.1.attn.", 4), kGpt2);
  const AnyLayer<float> layer = load_attention<float>(path_, {.layer = 1});
  const MultiHeadAttention<float>& attention = std::get<0>(layer);
  EXPECT_EQ(attention.sizes().heads, 2);
  EXPECT_TRUE(attention.config().causal);
  EXPECT_EQ(attention.config().dropout, 0.25);
  EXPECT_FALSE(attention.config().context_length);
  const AnyLayer<float> same = load_attention<float>(folder_.path(), {.name = "h.1.attn"}, {.dropout = 0.0});
  EXPECT_EQ(weights(layer, "W_key.weight"), weights(same, "W_key.weight"));
  EXPECT_EQ(std::get<0>(same).config().dropout, 0);
}

TEST_F(LoadAttention, InOutColumnsAreTurnedAndCut) {
  // c_attn.weight (2, 6): rows are inputs; its elements are 0.01, 0.02, ... 0.12.
  write(gpt2_layer("", 2));
  const AnyLayer<float> layer = load_attention<float>(path_, {}, {.num_heads = 1});
  EXPECT_EQ(weights(layer, "W_query.weight"), (std::vector<float>{0.01F * 1, 0.01F * 7, 0.01F * 2, 0.01F * 8}));
  EXPECT_EQ(weights(layer, "W_value.weight"), (std::vector<float>{0.01F * 5, 0.01F * 11, 0.01F * 6, 0.01F * 12}));
  EXPECT_EQ(weights(layer, "W_key.bias"), (std::vector<float>{0.01F * 15, 0.01F * 16}));
  EXPECT_EQ(weights(layer, "out_proj.weight"), (std::vector<float>{0.01F * 19, 0.01F * 21, 0.01F * 20, 0.01F * 22}));
}

TEST_F(LoadAttention, TheShapeTellsGpt2FromNanoGpt) {
  std::vector<ShapeOf> shapes = gpt2_layer("h.0.attn.", 2);
  shapes[0].shape = {6, 2};
  shapes.push_back({"h.0.attn.bias", {1, 1, 8, 8}});  // a stored mask
  write(shapes);
  const AnyLayer<float> layer = load_attention<float>(path_, {}, {.num_heads = 1});
  EXPECT_EQ(weights(layer, "W_query.weight"), (std::vector<float>{0.01F * 1, 0.01F * 2, 0.01F * 3, 0.01F * 4}));
  EXPECT_EQ(refusal({.family = "gpt2"}, {.num_heads = 1}),
            "model.safetensors: tensor 'h.0.attn.c_attn.weight' must hold queries, keys and values of one width, so "
            "columns divisible by 3, got (6, 2)");
}

TEST_F(LoadAttention, SeveralLayersAreListedUnlessOneIsChosen) {
  write(bert_layer("bert.encoder.layer.2.attention.", 4) + bert_layer("bert.encoder.layer.10.attention.", 4), kBert);
  EXPECT_EQ(
      refusal(),
      "load: layer must be one of the 2 that model.safetensors holds: 'bert.encoder.layer.2.attention' (layer=2), "
      "'bert.encoder.layer.10.attention' (layer=10)");
  EXPECT_EQ(refusal({.layer = 1}),
            "load: layer=1 was given, but model.safetensors holds: 'bert.encoder.layer.2.attention' (layer=2), "
            "'bert.encoder.layer.10.attention' (layer=10)");
  EXPECT_EQ(
      refusal({.name = "bert.encoder.layer.3.attention"}),
      "load: layer='bert.encoder.layer.3.attention' was given, but model.safetensors holds no such layer; did you "
      "mean 'bert.encoder.layer.2.attention'?");
  EXPECT_EQ(refusal({.name = "bert.encoder.layer.10"}), "nothing thrown");
}

TEST_F(LoadAttention, NamesOfSeveralFamiliesAreNeverGuessed) {
  write(proj_layer("layers.0.attention.", 4, 4));
  EXPECT_EQ(
      refusal({}, {.num_heads = 2}),
      "load: family is neither stored in model.safetensors nor given; the names of layer 'layers.0.attention' are "
      "those of: llama, vit, separate");
  EXPECT_EQ(refusal({.family = "vit"}, {.num_heads = 2}), "nothing thrown");
  EXPECT_EQ(refusal({.family = "separate"}, {.num_heads = 2}),
            "load: causal is neither stored in model.safetensors nor given");
  EXPECT_EQ(
      refusal({.family = "gpt2"}),
      "load: family=gpt2 was given, but the names of layer 'layers.0.attention' in model.safetensors are those of: "
      "llama, vit, separate");
  EXPECT_EQ(refusal({.family = "separat"}), "load: unknown family 'separat'; did you mean 'separate'?");
  EXPECT_EQ(
      refusal({.family = "zz"}),
      "load: unknown family 'zz'; known: albert, bert, book, book_einsum, book_v1, camembert, deit, dinov2, "
      "distilbert, electra, gpt2, llama, mistral, nanogpt, olmo2, qkv, qwen2, qwen3, roberta, seed, separate, timm, "
      "torch, torch_unpacked, vit, wrapper, xlm-roberta");
  EXPECT_EQ(refusal({.layout = "rows"}),
            "load: layout must be one of separate, separate_in_out, per_head, qkv_rows, qkv_columns, got 'rows'");
  EXPECT_EQ(
      refusal({.layout = "qkv_rows"}),
      "load: layout=qkv_rows was given, but the names of layer 'layers.0.attention' in model.safetensors are those "
      "of: llama, vit, separate (layout separate)");
}

TEST_F(LoadAttention, NormsOfQueriesAndKeysAreReadWithTheirEpsilon) {
  std::vector<ShapeOf> shapes = proj_layer("model.layers.0.self_attn.", 4, 2);
  shapes.push_back({"model.layers.0.self_attn.q_norm.weight", {2}});
  shapes.push_back({"model.layers.0.self_attn.k_norm.weight", {2}});
  const std::string config = R"({"model_type": "qwen3", "num_attention_heads": 2, "num_key_value_heads": 1)";
  write(shapes, config + "}");
  EXPECT_EQ(refusal(), "config.json: has no \"rms_norm_eps\"");
  write(shapes, config + R"(, "rms_norm_eps": 1e-5})");
  const auto layer = std::get<MultiHeadAttention<float>>(load_attention<float>(folder_.path(), {}, {}));
  EXPECT_EQ(layer.config().query_key_norm, (QueryKeyNorm{false, 1e-5}));
  shapes.back().shape = {3};
  write(shapes, config + R"(, "rms_norm_eps": 1e-5})");
  EXPECT_EQ(
      refusal(),
      "model.safetensors: tensor 'model.layers.0.self_attn.k_norm.weight' must be (2,) in a layer of family qwen3, "
      "got (3,)");
}

TEST_F(LoadAttention, AModelTypeThatNoRuleKnowsIsRefusedUnlessTheFamilyIsGiven) {
  write(proj_layer("h.0.attn.", 4, 4), R"({"model_type": "gptj", "n_head": 2})");
  EXPECT_EQ(
      refusal(),
      "config.json: \"model_type\" is 'gptj', and the names of layer 'h.0.attn' are not those of its family; "
      "headwise reads the attention of: gpt2, bert, roberta, xlm-roberta, camembert, electra, distilbert, albert, "
      "llama, mistral, qwen2, qwen3, olmo2, vit, dinov2, deit; or give family=");
  EXPECT_EQ(refusal({.family = "separate"}, {.causal = true}), "nothing thrown");
}

TEST_F(LoadAttention, AFactThatContradictsConfigIsAnError) {
  write(bert_layer("encoder.layer.0.attention.", 4), kBert);
  EXPECT_EQ(refusal({}, {.num_heads = 4}), "load: num_heads=4 was given, but config.json says 2");
  EXPECT_EQ(refusal({}, {.causal = true}), "load: causal=true was given, but family bert says false");
  write(bert_layer("encoder.layer.0.attention.", 6));
  EXPECT_EQ(refusal(), "config.json: \"hidden_size\" is 4, but the weights of model.safetensors take d_in=6");
  folder_.write("config.json", R"({"model_type": "bert", "num_attention_heads": 5})");
  EXPECT_EQ(refusal(),
            "config.json: \"num_attention_heads\" is 5, but the 6 rows of the queries in model.safetensors do not make "
            "so many "
            "heads");
  folder_.write("config.json", R"({"model_type": "bert", "num_attention_heads": 2, "num_key_value_heads": 1})");
  EXPECT_EQ(refusal(), "model.safetensors: the 6 rows of the keys do not make 1 head of head_dim=3");
  folder_.write("config.json", R"({"model_type": "bert", "num_attention_heads": 2, "head_dim": 2})");
  EXPECT_EQ(refusal(), "model.safetensors: the 6 rows of the queries do not make 2 heads of head_dim=2");
  folder_.write("config.json", R"({"model_type": "bert", "num_attention_heads": "2"})");
  EXPECT_EQ(refusal(), "config.json: \"num_attention_heads\" must be a whole number from 1 to 268435456, got '2'");
  folder_.write("config.json", R"({"model_type": "bert", "position_embedding_type": "relative_key"})");
  EXPECT_EQ(refusal(), "config.json: \"position_embedding_type\" is 'relative_key'; headwise runs \"absolute\"");
}

TEST_F(LoadAttention, AnEncoderClassThatConfigCallsADecoderIsCausal) {
  write(bert_layer("encoder.layer.0.attention.", 4),
        R"({"model_type": "bert", "num_attention_heads": 2, "is_decoder": true})");
  EXPECT_TRUE(std::get<0>(load_attention<float>(path_)).config().causal);
  EXPECT_EQ(refusal({}, {.causal = false}), "load: causal=false was given, but config.json says true");
}

TEST_F(LoadAttention, SettingsThatComputeSomethingElseAreRefused) {
  write(gpt2_layer("h.0.attn.", 4), R"({"model_type": "gpt2", "n_head": 2, "scale_attn_weights": false})");
  EXPECT_EQ(refusal(), "config.json: \"scale_attn_weights\" is false; headwise runs true");
  folder_.write("config.json", R"({"model_type": "gpt2", "n_head": 2, "scale_attn_by_inverse_layer_idx": true})");
  EXPECT_EQ(refusal(), "config.json: \"scale_attn_by_inverse_layer_idx\" is true; headwise runs false");
}

TEST_F(LoadAttention, ATensorTooFewTooManyOrOfAnotherShapeIsNamed) {
  std::vector<ShapeOf> shapes = bert_layer("encoder.layer.0.attention.", 4);
  const auto refused_with = [&](const std::string& name, const std::string& other, const std::vector<Index>& shape) {
    std::vector<ShapeOf> changed = shapes;
    for (ShapeOf& one : changed) {
      if (one.name == "encoder.layer.0.attention." + name) one = {"encoder.layer.0.attention." + other, shape};
    }
    write(changed, kBert);
    return refusal();
  };
  const std::string start = "model.safetensors: tensor 'encoder.layer.0.attention.";
  EXPECT_EQ(refused_with("self.key.weight", "self.kee.weight", {4, 4}),
            "model.safetensors: there is no tensor 'encoder.layer.0.attention.self.key.weight'");
  EXPECT_EQ(refused_with("self.key.bias", "self.kee.bias", {4}),
            "model.safetensors: there is no tensor 'encoder.layer.0.attention.self.key.bias'");
  EXPECT_EQ(refused_with("self.key.weight", "self.key.weight", {4, 3}),
            start + "self.key.weight' must be (4, 4) in a layer of family bert, got (4, 3)");
  EXPECT_EQ(refused_with("self.key.weight", "self.key.weight", {2, 4}),
            start + "self.value.weight' must be (2, 4) in a layer of family bert, got (4, 4)");
  EXPECT_EQ(refused_with("self.query.weight", "self.query.weight", {16}),
            start + "self.query.weight' must be (d_out, d_in), got (16,)");
  EXPECT_EQ(refused_with("self.query.weight", "self.query.weight", {Index{1} << 40, 0}),
            start + "self.query.weight' must not be empty, got (1099511627776, 0)");
  EXPECT_EQ(refused_with("output.dense.weight", "output.dense.weight", {4, 8}),
            start + "output.dense.weight' must be (4, 4) in a layer of family bert, got (4, 8)");
  EXPECT_EQ(refused_with("output.dense.bias", "output.dense.bias", {5}),
            start + "output.dense.bias' must be (4,) in a layer of family bert, got (5,)");
  EXPECT_EQ(refused_with("output.LayerNorm.bias", "self.distance_embedding.weight", {3, 2}),
            start + "self.distance_embedding.weight' is a part that headwise does not serve in a layer of family bert");
}

TEST_F(LoadAttention, AFileWithoutAttentionIsNamed) {
  write({{"embedding.weight", {3, 3}}});
  EXPECT_EQ(refusal(), "model.safetensors: there is no attention layer that headwise knows among its 1 tensors");
}

TEST_F(LoadAttention, HeadsThatShareOneStoredLayerAreFoundByTheModelsNumber) {
  std::vector<ShapeOf> shapes;
  for (const char* part : {"query", "key", "value", "dense"}) {
    shapes.push_back(
        {std::string("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.") + part + ".weight", {4, 4}});
    shapes.push_back(
        {std::string("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.") + part + ".bias", {4}});
  }
  write(shapes,
        R"({"model_type": "albert", "num_attention_heads": 2, "num_hidden_groups": 1, "num_hidden_layers": 12})");
  EXPECT_EQ(refusal({.layer = 11}), "nothing thrown");
  EXPECT_EQ(refusal({.layer = 12}),
            "load: layer=12 was given, but model.safetensors holds: "
            "'albert.encoder.albert_layer_groups.0.albert_layers.0.attention' (layer=0)");
}

TEST_F(LoadAttention, WeightsThatAreNoNumbersWithAFractionAreRefused) {
  std::vector<std::int32_t> values(16, 1);
  std::vector<NamedTensor> tensors;
  for (const char* part : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
    tensors.push_back({part, DType::kInt32, {4, 4}, reinterpret_cast<const std::byte*>(values.data())});
  }
  write_safetensors(path_, tensors);
  EXPECT_EQ(refusal({.family = "separate"}, {.num_heads = 2, .causal = false}),
            "model.safetensors: tensor 'q_proj.weight' is int32; weights are float16, bfloat16, float32 or float64");
}

}  // namespace
}  // namespace headwise
