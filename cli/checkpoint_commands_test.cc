// SPDX-License-Identifier: Apache-2.0
// inspect and convert: what they print, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "headwise/checkpoints/layer_file.h"
#include "tests/support/checkpoint_file.h"
#include "tests/support/command_result.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CheckpointCommands : public testing::Test {
 protected:
  CheckpointCommands() {
    write_checkpoint(model_, proj_layer("model.layers.2.self_attn.", 8, 4) +
                                 proj_layer("model.layers.10.self_attn.", 8, 4) +
                                 std::vector<ShapeOf>{{"model.embed_tokens.weight", {5, 8}}});
    write_checkpoint(gpt2_, gpt2_layer("transformer.h.0.attn.", 4));
    folder_.write("config.json", R"({"model_type": "gpt2", "n_head": 2})");
  }

  // A refusal with the folder's name left out.
  std::string refused(const std::vector<std::string>& arguments) {
    std::string text = refusal(arguments);
    const std::string folder = folder_.path() + "/";
    for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
      text.erase(at, folder.size());
    return text;
  }

  TemporaryFolder folder_, bare_;
  std::string model_ = bare_.file("model.safetensors"), gpt2_ = folder_.file("model.safetensors");
  std::string out_ = folder_.file("out.safetensors");
};

TEST_F(CheckpointCommands, InspectShowsEachLayerAndTheTotals) {
  EXPECT_EQ(run({"inspect", folder_.path()}).out,
            gpt2_ +
                "\n"
                "  layer  name                  family  layout       heads  kv_heads  head_dim  d_in  d_out  causal  "
                "rotary  window  biases    dtype    parameters\n"
                "      0  transformer.h.0.attn  gpt2    qkv_columns      2         2         2     4      4  yes     "
                "-            -  qkv, out  float32          80\n"
                "1 attention layer, 80 of 80 parameters\n");
}

TEST_F(CheckpointCommands, InspectShowsWhatNoFileSaysAsUnknown) {
  EXPECT_EQ(
      run({"inspect", model_}).out,
      model_ +
          "\n"
          "  layer  name                       family                  layout    heads  kv_heads  head_dim  d_in  "
          "d_out  causal  rotary  window  biases  dtype    parameters\n"
          "      2  model.layers.2.self_attn   llama | vit | separate  separate      ?         ?         ?     8  "
          "    8  ?       ?            ?  none    float32         192\n"
          "     10  model.layers.10.self_attn  llama | vit | separate  separate      ?         ?         ?     8  "
          "    8  ?       ?            ?  none    float32         192\n"
          "2 attention layers, 384 of 424 parameters\n");
}

TEST_F(CheckpointCommands, InspectGivesTheSameAsJson) {
  const auto known = nlohmann::json::parse(run({"inspect", gpt2_, "--json"}).out);
  EXPECT_EQ(known["schema"], 1);
  EXPECT_EQ(known["command"], "inspect");
  EXPECT_EQ(known["path"], gpt2_);
  EXPECT_EQ(known["files"], 1);
  EXPECT_EQ(known["totals"], nlohmann::json({{"layers", 1}, {"attention_parameters", 80}, {"parameters", 80}}));
  EXPECT_EQ(known["layers"][0], nlohmann::json({{"name", "transformer.h.0.attn"},
                                                {"number", 0},
                                                {"family", "gpt2"},
                                                {"candidates", {"gpt2"}},
                                                {"layout", "qkv_columns"},
                                                {"heads", 2},
                                                {"kv_heads", 2},
                                                {"head_dim", 2},
                                                {"d_in", 4},
                                                {"d_out", 4},
                                                {"qkv_bias", true},
                                                {"out_proj", true},
                                                {"out_bias", true},
                                                {"causal", true},
                                                {"rotary", false},
                                                {"window_left", false},
                                                {"dtype", "float32"},
                                                {"parameters", 80},
                                                {"problem", nullptr},
                                                {"contradiction", false}}));
  const auto open = nlohmann::json::parse(run({"inspect", model_, "--json"}).out)["layers"][1];
  EXPECT_EQ(open["number"], 10);
  EXPECT_EQ(open["family"], nullptr);
  EXPECT_EQ(open["candidates"], nlohmann::json({"llama", "vit", "separate"}));
  EXPECT_EQ(open["heads"], nullptr);
  EXPECT_EQ(open["rotary"], nullptr);
  EXPECT_EQ(open["window_left"], nullptr);
}

TEST_F(CheckpointCommands, InspectShowsRotaryPositionsAndTheWindow) {
  bare_.write("config.json", R"({"model_type": "mistral", "num_hidden_layers": 11, "num_attention_heads": 4,
                                 "rope_theta": 1e6, "sliding_window": 4096})");
  const Result mistral = run({"inspect", model_});
  EXPECT_EQ(mistral.code, 0);
  EXPECT_THAT(mistral.out,
              HasSubstr("      2  model.layers.2.self_attn   mistral  separate      4         2         2     8  "
                        "    8  yes     half_split, base 1000000    4095  none    float32         192\n"));
  bare_.write("config.json", R"({"model_type": "llama", "num_attention_heads": 4, "rope_theta": 5e5, "rope_scaling":
                                 {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 8192}})");
  EXPECT_THAT(run({"inspect", model_}).out, HasSubstr("  yes     half_split, base 500000, llama3 8       -  none  "));
  const auto layer = nlohmann::json::parse(run({"inspect", model_, "--json"}).out)["layers"][1];
  EXPECT_EQ(
      layer["rotary"],
      nlohmann::json(
          {{"style", "half_split"}, {"rotary_dim", 2}, {"base", 500000.0}, {"scaling", "llama3"}, {"factor", 8.0}}));
  EXPECT_EQ(layer["window_left"], false);
  EXPECT_EQ(run({"convert", model_, bare_.file("out"), "--to", "book", "--layer", "2"}).code, 0);
  EXPECT_THAT(run({"inspect", bare_.file("out")}).out, HasSubstr("half_split, base 500000, llama3 8       -  none  "));
}

// What config.json says, and what the tensors contradict: the tensors are shown, the contradiction is named.
TEST_F(CheckpointCommands, InspectNamesContradictionsAndEndsWith1) {
  struct Case {
    const char *config, *reason, *shown;
  };
  const std::string rows = " rows of the queries in model.safetensors do not make so many heads";
  const std::string four = "config.json: \"n_head\" is 3, but the 4" + rows;
  const Case cases[] = {
      {R"({"model_type": "gpt2", "n_head": -4})",
       R"(config.json: "n_head" must be a whole number from 1 to 268435456, got -4)", "gpt2    qkv_columns      ?"},
      {R"({"model_type": "gpt2", "n_head": "4"})",
       R"(config.json: "n_head" must be a whole number from 1 to 268435456, got '4')", "gpt2    qkv_columns      ?"},
      {R"({"model_type": "gpt2", "n_head": 3})", four.c_str(), "gpt2    qkv_columns      ?"},
      {R"({"model_type": "gpt2", "n_embd": 8})",
       R"(config.json: "n_embd" is 8, but the weights of model.safetensors take d_in=4)", "gpt2    qkv_columns      ?"},
      {R"({"model_type": "bert", "n_head": 2})",
       R"(config.json: "model_type" is 'bert', but the names of layer 'transformer.h.0.attn' are those of: gpt2, nanogpt; or give FAMILY)",
       "gpt2    qkv_columns      ?"},
      {R"({"model_type": "nanogpt", "n_head": 2})",
       R"(config.json: "model_type" is 'nanogpt', but the shapes of layer 'transformer.h.0.attn' are those of: gpt2; or give FAMILY)",
       "gpt2    qkv_columns      ?"},
  };
  const std::string folder = folder_.path() + "/";
  const auto without_folder = [&](std::string text) {
    for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder)) text.erase(at, folder.size());
    return text;
  };
  const auto with_family = [](std::string text, const std::string& option) {
    const std::size_t at = text.find("FAMILY");
    return at == std::string::npos ? text : text.replace(at, 6, option);
  };
  for (const Case& one : cases) {
    folder_.write("config.json", one.config);
    const Result result = run({"inspect", gpt2_});
    EXPECT_EQ(result.code, 1) << one.config;
    EXPECT_EQ(result.err, "") << one.config;
    EXPECT_THAT(result.out, HasSubstr(one.shown)) << one.config;
    EXPECT_THAT(
        without_folder(result.out),
        testing::EndsWith("1 attention layer, 80 of 80 parameters\nThe files contradict each other, so that these "
                          "are refused:\n  transformer.h.0.attn: " +
                          with_family(one.reason, "--family of run, --from of convert") + "\n"));
    const Result json = run({"inspect", gpt2_, "--json"});
    EXPECT_EQ(json.code, 1);
    const auto layer = nlohmann::json::parse(json.out)["layers"][0];
    EXPECT_EQ(layer["contradiction"], true);
    EXPECT_EQ(layer["d_in"], 4);
    EXPECT_EQ(layer["parameters"], 80);
    EXPECT_EQ(refused({"convert", gpt2_, out_, "--to", "torch"}),
              "headwise convert: " + with_family(one.reason, "--from"));
    EXPECT_EQ(refused({"run", gpt2_, folder_.file("x.npy")}), "headwise run: " + with_family(one.reason, "--family"));
  }
}

TEST_F(CheckpointCommands, MoreStoredLayersThanConfigCountsAreAContradiction) {
  bare_.write("config.json", R"({"model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 10})");
  const std::string reason =
      model_ +
      ": stores attention layers up to number 10, but config.json counts 10 of them from 0 (num_hidden_layers)";
  const Result result = run({"inspect", model_});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out,
              testing::EndsWith("2 attention layers, 384 of 424 parameters\nThe files contradict each other, "
                                "so that these are refused:\n  model.layers.2.self_attn and 1 more: " +
                                reason + "\n"));
  EXPECT_EQ(refusal({"convert", model_, out_, "--to", "book", "--layer", "2"}), "headwise convert: " + reason);
}

TEST_F(CheckpointCommands, InspectListsALayerThatCannotBeLoadedWithTheReason) {
  const std::string path = folder_.file("mha");
  write_checkpoint(path, {{"a.in_proj_weight", {6, 2}}, {"a.out_proj.weight", {2, 2}}, {"a.bias_k", {1, 1, 2}}},
                   {{"format", "headwise-layer"}, {"version", "1"}});
  EXPECT_THAT(run({"inspect", path}).out,
              HasSubstr("1 attention layer, 0 of 18 parameters\nCannot be loaded as they are:\n  a: " + path +
                        ": tensor 'a.bias_k' is a part that headwise does not serve in a layer of family torch\n"));
  bare_.write("config.json", R"({"model_type": "llama", "rope_scaling": {"rope_type": "dynamic"}})");
  EXPECT_THAT(run({"inspect", model_}).out,
              HasSubstr("2 attention layers, 384 of 424 parameters\nCannot be loaded as they are:\n"
                        "  model.layers.2.self_attn and 1 more: " +
                        bare_.file("config.json") +
                        ": \"rope_scaling\": \"rope_type\" is 'dynamic'; headwise computes default, linear, llama3 and "
                        "yarn\n"));
  write_checkpoint(path, {{"embedding", {3, 3}}});
  EXPECT_EQ(run({"inspect", path}).out, path + ": no attention layer that headwise knows, 9 parameters\n");
}

TEST_F(CheckpointCommands, ConvertSaysWhatItDidAndTheFileLoads) {
  const Result result = run({"convert", folder_.path(), out_, "--to", "torch"});
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, "layer 'transformer.h.0.attn' of " + folder_.path() +
                            ": gpt2 -> torch, 2 heads, 4 tensors in " + out_ + "\n");
  EXPECT_THAT(run({"inspect", out_}).out, HasSubstr("torch   qkv_rows      2"));
  const std::string book = folder_.file("book");
  EXPECT_EQ(run({"convert", out_, book, "--to", "book"}).code, 0);
  const AnyLayer<float> layer = load_layer<float>(book);
  EXPECT_EQ(std::get<0>(layer).sizes().heads, 2);
}

TEST_F(CheckpointCommands, ConvertSplitsAWrapperAndFusesItAgain) {
  AnyLayer<float> fused = MultiHeadAttention<float>(6, 4, {.num_heads = 2, .seed = 3});
  const std::string first = folder_.file("fused"), heads = folder_.file("heads"), back = folder_.file("back");
  save_layer(first, fused);
  EXPECT_EQ(run({"convert", first, heads, "--to", "wrapper"}).code, 0);
  EXPECT_EQ(load_layer<float>(heads).index(), 2U);
  EXPECT_EQ(run({"convert", heads, back, "--to", "book"}).code, 0);
  EXPECT_EQ(folder_.read("back"), folder_.read("fused"));
}

TEST_F(CheckpointCommands, ConvertGivesNotesAndJson) {
  AnyLayer<float> layer = MultiHeadAttention<float>(4, 4, {.num_heads = 2, .seed = 3});
  const std::string in = folder_.file("in");
  save_layer(in, layer);
  EXPECT_THAT(run({"convert", in, out_, "--to", "torch"}).out,
              HasSubstr("\n  in_proj_bias is zero: the layer has no bias of queries, keys and values\n"));
  const auto json = nlohmann::json::parse(run({"convert", in, out_, "--to", "gpt2", "--json"}).out);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["from"], "book");
  EXPECT_EQ(json["to"], "gpt2");
  EXPECT_EQ(json["heads"], 2);
  EXPECT_EQ(json["tensors"], 4);
  EXPECT_EQ(json["notes"].size(), 1U);
}

TEST_F(CheckpointCommands, WrongUsageIsRefusedWithTheNearestName) {
  EXPECT_EQ(refused({"inspect"}), "headwise inspect: PATH is needed");
  EXPECT_EQ(refused({"inspect", ""}), "headwise inspect: PATH must not be empty");
  EXPECT_EQ(refused({"convert", "a", "", "--to", "book"}), "headwise convert: OUT must not be empty");
  EXPECT_EQ(refused({"inspect", "a", "b"}), "headwise inspect: unexpected argument 'b'");
  EXPECT_EQ(refused({"inspect", "--jsn", "a"}), "headwise inspect: unknown option '--jsn'; did you mean '--json'?");
  EXPECT_EQ(refused({"inspect", folder_.file("absent")}), "headwise inspect: absent: no such file");
  EXPECT_EQ(refused({"convert", "a"}), "headwise convert: IN and OUT are needed");
  EXPECT_EQ(refused({"convert", "a", "b", "c"}), "headwise convert: unexpected argument 'c'");
  EXPECT_EQ(refused({"convert", "a", "b"}),
            "headwise convert: --to is needed: one of book, wrapper, seed, torch, qkv, gpt2, nanogpt, separate");
  EXPECT_EQ(refused({"convert", "a", "b", "--too", "book"}),
            "headwise convert: unknown option '--too'; did you mean '--to'?");
  EXPECT_EQ(refused({"convert", gpt2_, out_, "--to", "wraper"}),
            "headwise convert: no layer can be written as 'wraper'; did you mean 'wrapper'?");
  EXPECT_EQ(refused({"convert", gpt2_, out_, "--to", "book", "--from", "gpt3"}),
            "headwise convert: unknown family 'gpt3'; did you mean 'gpt2'?");
  EXPECT_EQ(refused({"convert", gpt2_, out_, "--to", "book", "--heads", "x"}),
            "headwise convert: --heads must be a whole number, got 'x'");
  EXPECT_EQ(refused({"convert", gpt2_, out_, "--to", "book", "--causal", "yes"}),
            "headwise convert: --causal must be true or false, got 'yes'");
  EXPECT_EQ(refused({"convert", gpt2_, out_, "--to", "book", "--layer", "7"}),
            "headwise convert: --layer 7 was given, but model.safetensors holds: 'transformer.h.0.attn' (--layer 0)");
  EXPECT_EQ(refused({"convert", gpt2_, out_, "--to", "book", "--heads", "3"}),
            "headwise convert: --heads 3 was given, but config.json says 2");
  EXPECT_EQ(refused({"convert", gpt2_, folder_.path(), "--to", "book"}),
            "headwise convert: " + folder_.path() + ": is a directory, not a file");
  EXPECT_THAT(folder_.names(), testing::UnorderedElementsAre("model.safetensors", "config.json"));
}

TEST_F(CheckpointCommands, HelpStartsWithExamples) {
  EXPECT_THAT(run({"inspect", "--help"}).out, StartsWith("Examples:\n  headwise inspect"));
  EXPECT_THAT(run({"convert", "-h"}).out, StartsWith("Examples:\n  headwise convert"));
}

}  // namespace
}  // namespace headwise::cli
