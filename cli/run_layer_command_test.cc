// SPDX-License-Identifier: Apache-2.0
// headwise run, end to end on a layer and arrays that the test writes; run_layer_refusals_test.cc has what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headwise/checkpoints/load_attention.h"
#include "headwise/io/array_file.h"
#include "headwise/lens/layer_run.h"
#include "tests/support/run_layer_fixture.h"
#include "tests/support/tiny_encoder.h"

namespace headwise::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(RunLayer, ShowsTheLayerTheShapesAndALineForEachHead) {
  const Result result = run(with({}));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith(folder_.file("layer.safetensors") +
                                     ": MultiHeadAttention, 2 heads, head_dim 4, d_in 6, d_out 8, causal\n" +
                                     folder_.file("x.npy") + ": x float32 (2, 5, 6)\nout float32 (2, 5, 8): values "));
  EXPECT_THAT(result.out, HasSubstr("Heads, means over 10 queries"));
  EXPECT_THAT(result.out, HasSubstr("  head  entropy  max_weight  distance   self  previous   next  first\n     0  "));
  EXPECT_THAT(result.out, HasSubstr("\n     1  "));
}

TEST_F(RunLayer, WritesTheOutputOfForwardInEachFormat) {
  const std::string expected = content(tiny_layer().forward(x_.cview()));
  for (const char* name : {"out.npy", "out.npz", "out.safetensors"}) {
    const Result result = run(with({"--out", folder_.file(name)}));
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, testing::EndsWith("Written to " + folder_.file(name) + ":\n  out float32 (2, 5, 8)\n"));
    ArrayFile file(folder_.file(name));
    EXPECT_THAT(file.names(), ElementsAre("out"));
    EXPECT_EQ(content(file.array("out")), expected) << name;
  }
}

TEST_F(RunLayer, WritesWeightsAndTheStatisticsAskedForByName) {
  for (const char* name : {"all.npz", "all.safetensors"}) {
    EXPECT_EQ(run(with({"--out", folder_.file(name), "--weights", "--stats", "received,entropy"})).code, 0);
    ArrayFile file(folder_.file(name));
    std::vector<std::string> names = file.names();
    std::sort(names.begin(), names.end());
    EXPECT_THAT(names, ElementsAre("entropy", "out", "received", "weights"));
    EXPECT_THAT(file.facts("weights").shape, ElementsAre(2, 2, 5, 5));
    EXPECT_THAT(file.facts("received").shape, ElementsAre(2, 2, 5));
    const LayerRunRequest request{.weights = true, .statistics = {"received", "entropy"}};
    const auto expected = run_layer<float>(tiny_layer(), x_.cview(), {}, {}, request);
    for (const NamedTensor& array : run_arrays(expected, request, false)) {
      EXPECT_EQ(content(file.array(array.name)), content(array)) << array.name;
    }
  }
  EXPECT_EQ(run(with({"--out", folder_.file("every.npz"), "--stats"})).code, 0);
  EXPECT_EQ(ArrayFile(folder_.file("every.npz")).names().size(), 10U);
}

TEST_F(RunLayer, AnArrayWithoutABatchAxisGivesOnesWithoutIt) {
  NamedTensor one = as_named("x", x_);
  one.shape = {5, 6};
  write_npy(folder_.file("x.npy"), one);
  EXPECT_EQ(run(with({"--out", folder_.file("out.npz"), "--weights"})).code, 0);
  ArrayFile file(folder_.file("out.npz"));
  EXPECT_THAT(file.facts("out").shape, ElementsAre(5, 8));
  EXPECT_THAT(file.facts("weights").shape, ElementsAre(2, 5, 5));
  EXPECT_EQ(content(file.array("out")), content(tiny_layer().forward(x_.cview())).substr(0, 5 * 8 * 4));
}

TEST_F(RunLayer, AnUnalignedArrayGivesTheSameBits) {
  const std::string byte(1, 'x');
  std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("x":{"dtype":"F32","shape":[2,5,6],"data_offsets":[1,241]}})";
  header.resize(128, ' ');
  folder_.write("odd.safetensors", safetensors_bytes(header, byte + content(x_)));
  EXPECT_EQ(run({"run", folder_.file("layer.safetensors"), folder_.file("odd.safetensors"), "--input", "x", "--out",
                 folder_.file("out.npy")})
                .code,
            0);
  EXPECT_EQ(content(ArrayFile(folder_.file("out.npy")).array("out")), content(tiny_layer().forward(x_.cview())));
}

TEST_F(RunLayer, KeysAndValuesMayComeFromAnotherArray) {
  const std::vector<std::string> keys{"--keys-values", folder_.file("several.npz"), "--keys-values-input", "keys"};
  std::vector<std::string> aligned = keys;
  aligned.insert(aligned.end(), {"--align", "upper_left", "--lengths", "3,2", "--out", folder_.file("out.npy")});
  EXPECT_EQ(run(with(aligned)).code, 0);
  const Tensor<float, 3> short_keys = tiny_input(2, 3, 4);
  const std::vector<Index> lengths{3, 2};
  ForwardOptions<float> options;
  options.visibility.alignment = Alignment::kUpperLeft;
  options.visibility.kv_lengths = lengths;
  EXPECT_EQ(content(ArrayFile(folder_.file("out.npy")).array("out")),
            content(tiny_layer().forward(x_.cview(), short_keys.cview(), options)));
  ++files_;
  EXPECT_EQ(refused_with(keys),
            "the layer is causal, and there are 5 queries and 3 keys: --align or --query-offset must say where the "
            "queries stand");
  std::vector<std::string> offset = keys;
  offset.insert(offset.end(), {"--query-offset", "2"});
  EXPECT_EQ(run(with(offset)).code, 0);
}

TEST_F(RunLayer, ALayerOfAModelIsChosenByItsNumber) {
  const TemporaryFolder model;
  write_tiny_model(model);
  Tensor<float, 3> x({1, 4, 8});
  for (Index i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<float>(i % 7) - 3;
  const std::string input = model.file("x.npy"), out = model.file("out.npy");
  write_npy(input, as_named("x", x));
  EXPECT_EQ(run({"run", model.path(), input, "--layer", "1", "--out", out}).code, 0);
  const AnyLayer<float> layer = load_attention<float>(model.path(), {.layer = 1});
  EXPECT_EQ(content(ArrayFile(out).array("out")),
            content(std::get<MultiHeadAttention<float>>(layer).forward(x.cview())));
  EXPECT_THAT(refusal({"run", model.path(), input}), HasSubstr("encoder.layer.1.attention"));
  EXPECT_THAT(refusal({"run", model.path(), input, "--layer", "2"}), HasSubstr("encoder.layer.1.attention"));
  EXPECT_EQ(refusal({"run", model.path(), input, "--layer", ""}), "headwise run: --layer needs a number or a name");
}

TEST_F(RunLayer, JsonHoldsTheWholeAnswer) {
  const Result result = run(with({"--json", "--out", folder_.file("out.npz"), "--stats", "entropy"}));
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["command"], "run");
  EXPECT_EQ(json["layer"]["kind"], "MultiHeadAttention");
  EXPECT_EQ(json["layer"]["heads"], 2);
  EXPECT_TRUE(json["layer"]["context_length"].is_null());
  EXPECT_EQ(json["input"]["shape"], nlohmann::json({2, 5, 6}));
  EXPECT_TRUE(json["keys_values"].is_null());
  EXPECT_EQ(json["out"]["dtype"], "float32");
  EXPECT_EQ(json["queries"], 10);
  EXPECT_EQ(json["queries_seeing"], 10);
  const auto expected = run_layer<float>(tiny_layer(), x_.cview(), {}, {}, {.statistics = {"entropy", "max_weight"}});
  EXPECT_EQ(json["heads"][1]["entropy"], head_means(*expected.find("entropy"), *expected.find("max_weight"))[1]);
  EXPECT_EQ(json["written"]["arrays"][1]["name"], "entropy");
  double least = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < expected.out.elements(); ++i) {
    least = std::min<double>(least, expected.out.data()[i]);
  }
  EXPECT_EQ(json["out"]["least"], least);
}

TEST_F(RunLayer, ValuesThatAreNotFiniteAreCounted) {
  for (Index i = 0; i < x_.elements(); ++i) x_.data()[i] = std::numeric_limits<float>::quiet_NaN();
  write_npy(folder_.file("x.npy"), as_named("x", x_));
  EXPECT_THAT(run(with({})).out, HasSubstr("out float32 (2, 5, 8): no finite value, 80 not finite\n"));
  const auto json = nlohmann::json::parse(run(with({"--json"})).out);
  EXPECT_EQ(json["out"]["not_finite"], 80);
  EXPECT_TRUE(json["out"]["least"].is_null());
  EXPECT_TRUE(json["heads"][0]["entropy"].is_null());
}

TEST_F(RunLayer, MeansAreOverTheQueriesThatSeeAKey) {
  const std::vector<std::string> none{"--lengths", "0,0"}, half{"--lengths", "5,0"};
  const auto as_json = [&](std::vector<std::string> more) {
    more.emplace_back("--json");
    return nlohmann::json::parse(run(with(more)).out);
  };
  // An entry without keys counts for nothing: the means are those of the other one alone.
  NamedTensor first = as_named("x", x_);
  first.shape = {1, 5, 6};
  write_npy(folder_.file("first.npy"), first);
  const auto alone =
      nlohmann::json::parse(run({"run", folder_.file("layer.safetensors"), folder_.file("first.npy"), "--json"}).out);
  EXPECT_EQ(as_json(half)["heads"], alone["heads"]);
  EXPECT_EQ(as_json(half)["queries"], 10);
  EXPECT_EQ(as_json(half)["queries_seeing"], 5);
  EXPECT_THAT(run(with(half)).out, HasSubstr("\nHeads, means over the 5 of 10 queries that see a key (entropy in nats, "
                                             "distance in tokens, the rest are weights):\n"));
  EXPECT_EQ(as_json(none)["queries_seeing"], 0);
  EXPECT_EQ(as_json(none)["heads"][1], nlohmann::json({{"head", 1},
                                                       {"entropy", nullptr},
                                                       {"max_weight", nullptr},
                                                       {"distance", nullptr},
                                                       {"self", nullptr},
                                                       {"previous", nullptr},
                                                       {"next", nullptr},
                                                       {"first", nullptr}}));
  EXPECT_THAT(run(with(none)).out,
              testing::EndsWith("\nHeads, means over the 0 of 10 queries that see a key (entropy in nats, distance in "
                                "tokens, the rest are weights):\n"
                                "  head  entropy  max_weight  distance  self  previous  next  first\n"
                                "     0        -           -         -     -         -     -      -\n"
                                "     1        -           -         -     -         -     -      -\n"));
}

TEST_F(RunLayer, EmptyArraysAreLegal) {
  const Tensor<float, 3> none({2, 0, 6});
  write_npy(folder_.file("x.npy"), as_named("x", none));
  EXPECT_EQ(run(with({"--out", folder_.file("out.npz"), "--weights", "--stats"})).code, 0);
  EXPECT_THAT(ArrayFile(folder_.file("out.npz")).facts("weights").shape, ElementsAre(2, 2, 0, 0));
  const std::string text = run(with({})).out;
  EXPECT_THAT(text, HasSubstr("\nout float32 (2, 0, 8): no values\n\nHeads, means over 0 queries (entropy in nats, "));
  EXPECT_THAT(text, HasSubstr("\n     1        -           -         -     -         -     -      -\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("nan")));
  const auto json = nlohmann::json::parse(run(with({"--json"})).out);
  EXPECT_TRUE(json["heads"][0]["entropy"].is_null());
  EXPECT_EQ(json["out"]["not_finite"], 0);
}

}  // namespace
}  // namespace headwise::cli
