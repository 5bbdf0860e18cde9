// SPDX-License-Identifier: Apache-2.0
// headwise attend, end to end on a model that the test writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/attend_options.h"
#include "headwise/lens/head_summary.h"
#include "headwise/lens/trace_file.h"
#include "tests/support/command_result.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_encoder.h"

namespace headwise::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Attend : public testing::Test {
 protected:
  void SetUp() override { write_tiny_model(folder_); }

  std::vector<std::string> with(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"attend", "--model", folder_.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string refused(std::vector<std::string> more) const {
    std::string text = refusal(with(std::move(more)));
    if (text.starts_with("headwise attend: ")) text.erase(0, 17);
    return text;
  }
  nlohmann::json json(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Result result = run(with(more));
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out);
  }

  TemporaryFolder folder_;
};

TEST_F(Attend, ShowsShapesAndALineForEachHead) {
  const Result result = run(with({"--ids", "1,5,9,2", "--tokens", R"(["[CLS]","the","cat","[SEP]"])"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith(folder_.path() + ": 2 layers of 2 heads, head_dim 4, hidden 8\n"
                                                      "Sentence 1 (4 tokens): [CLS] the cat [SEP]\n\n"
                                                      "Shapes along layer 0:\n"));
  EXPECT_THAT(result.out, HasSubstr("  transposed  batch=1, heads=2, seq=4, head_dim=4  (96, 4, 24, 1)  heads before "
                                    "tokens: a view, no copy\n"));
  EXPECT_THAT(result.out, HasSubstr("Heads, means over 4 tokens"));
  for (const char* line : {"\n      0     0 ", "\n      0     1 ", "\n      1     0 ", "\n      1     1 "}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
  EXPECT_THAT(result.out, testing::Not(HasSubstr("Weights of")));
  // One best head in each of the six columns, and the star of the legend.
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '*'), 7);
}

TEST_F(Attend, ShowsTheWeightsOfOneHead) {
  const Result result = run(with({"--ids", "1,5,2", "--layer", "1", "--head", "0", "--color", "never"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("Weights of layer 1, head 0: rows are queries, columns are keys, in percent:\n"
                                    "                     1     5     2\n"));
  EXPECT_THAT(result.out, testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(run(with({"--ids", "1,5,2", "--layer", "1", "--head", "0", "--color", "always"})).out,
              HasSubstr("\x1b[48;5;"));
}

TEST_F(Attend, JsonHoldsTheWholeAnswer) {
  const auto document = json({"--ids", "1,5,9,2", "--ids", "1,7", "--tokens", R"(["[CLS]","the","cat","[SEP]"])",
                              "--tokens", R"(["a","b"])", "--layer", "1", "--head", "1"});
  EXPECT_EQ(document["schema"], 1);
  EXPECT_EQ(document["command"], "attend");
  EXPECT_EQ(document["model"]["heads"], 2);
  EXPECT_EQ(document["sentences"][1]["ids"], nlohmann::json({1, 7}));
  EXPECT_EQ(document["sentences"][0]["tokens"][2], "cat");
  EXPECT_EQ(document["path"]["layer"], 1);
  EXPECT_EQ(document["path"]["steps"][2]["shape"], nlohmann::json({1, 4, 2, 4}));
  EXPECT_EQ(document["path"]["steps"][2]["memory"], "view");
  EXPECT_TRUE(document["path"]["steps"][4]["strides"].is_null());
  ASSERT_EQ(document["heads"].size(), 2U);
  EXPECT_EQ(document["heads"][1]["head"], 1);
  ASSERT_EQ(document["weights"].size(), 2U);
  for (const auto& sentence : document["weights"]) {
    for (const auto& row : sentence["values"]) {
      double total = 0;
      for (const double weight : row) total += weight;
      EXPECT_NEAR(total, 1, 1e-6);
    }
  }
  const auto& strongest = document["heads"][1]["strongest"];
  EXPECT_EQ(strongest["weight"], document["weights"][strongest["sentence"].get<int>()]["values"]
                                         [strongest["query"].get<int>()][strongest["key"].get<int>()]);
}

TEST_F(Attend, EveryHeadsNumbersAreThoseOfTheLens) {
  const auto document = json({"--ids", "1,5,9,2"});
  const AttentionTrace trace = trace_encoder(tiny_encoder(), std::vector<TokenSequence>{{{1, 5, 9, 2}, {}}});
  const auto heads = summarize_heads(trace);
  ASSERT_EQ(document["heads"].size(), heads.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    EXPECT_EQ(document["heads"][i]["entropy"], heads[i].entropy);
    EXPECT_EQ(document["heads"][i]["previous"], heads[i].previous);
    EXPECT_TRUE(document["heads"][i]["separator"].is_null());
  }
  EXPECT_FALSE(document.contains("weights"));
}

TEST_F(Attend, TokensComeFromTheVocabularyBesideTheModel) {
  folder_.write("vocab.txt", "[PAD]\n[CLS]\r\nsome\xFF\n\nlast");
  EXPECT_EQ(json({"--ids", "1,0,2,3,4,5"})["sentences"][0]["tokens"],
            nlohmann::json({"[CLS]", "[PAD]", "2", "3", "last", "5"}));
  EXPECT_EQ(json({"--ids", "1", "--tokens", "[\"mine\"]"})["sentences"][0]["tokens"], nlohmann::json({"mine"}));
}

TEST_F(Attend, SavesATraceThatLoads) {
  const Result result = run(with({"--ids", "1,5,2", "--save", folder_.file("trace.safetensors")}));
  EXPECT_EQ(result.code, 0);
  const AttentionTrace trace = load_trace(folder_.file("trace.safetensors"));
  EXPECT_EQ(trace.model, folder_.path());
  EXPECT_EQ(trace.layers, 2);
  EXPECT_THAT(trace.sentences[0].ids, ElementsAre(1, 5, 2));
}

TEST_F(Attend, EveryWrongCallIsRefusedWithItsOwnText) {
  EXPECT_EQ(refused({}), "--ids is needed: the token ids of a sentence");
  EXPECT_EQ(refusal({"attend", "--ids", "1"}),
            "headwise attend: --model is needed: a folder with config.json and model.safetensors");
  EXPECT_EQ(refused({"hello"}),
            "a text needs the Python package, which brings the tokenizer; here give its ids with --ids, got 'hello'");
  EXPECT_EQ(refused({"--ids", "1,x"}), "--ids must be whole numbers with commas between, got '1,x'");
  EXPECT_EQ(refused({""}), "the text is empty: there is nothing to attend to");
  EXPECT_EQ(refused({"--text", ""}), "the text is empty: there is nothing to attend to");
  EXPECT_EQ(refused({"--ids", ""}), "--ids must be whole numbers with commas between, got ''");
  EXPECT_EQ(refused({"--ids", "1,"}), "--ids must be whole numbers with commas between, got '1,'");
  EXPECT_EQ(refused({"--ids", "1", "2"}),
            "a text needs the Python package, which brings the tokenizer; here give its ids with --ids, got '2'");
  EXPECT_EQ(refused({"--ids", "20"}), "--ids must be in 0..19, got 20");
  EXPECT_EQ(refused({"--ids", "-1"}), "--ids must be in 0..19, got -1");
  EXPECT_EQ(refused({"--ids", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}), "--ids has 17 tokens; the model takes 16");
  EXPECT_EQ(refused({"--ids", "1", "--layer", "2"}), "--layer must be in 0..1, got 2");
  EXPECT_EQ(refused({"--ids", "1", "--layer", "-1"}), "--layer must be in 0..1, got -1");
  EXPECT_EQ(refused({"--ids", "1", "--layer", "one"}), "--layer must be a whole number, got 'one'");
  EXPECT_EQ(refused({"--ids", "1", "--layer", "0", "--head", "2"}), "--head must be in 0..1, got 2");
  EXPECT_EQ(refused({"--ids", "1", "--head", "0"}), "--head needs --layer: a head belongs to a layer");
  EXPECT_EQ(refused({"--ids", "1", "--tokens", "x"}), "--tokens must be a JSON array of strings, got 'x'");
  EXPECT_EQ(refused({"--ids", "1", "--tokens", "[1]"}), "--tokens must be a JSON array of strings, got '[1]'");
  EXPECT_EQ(refused({"--ids", "1", "--tokens", R"(["a","b"])"}),
            "--tokens must name every id of sentence 1: 1 id, got 2 names");
  EXPECT_EQ(refused({"--ids", "1", "--ids", "2", "--tokens", R"(["a"])"}),
            "--tokens must be given once for each --ids: 2 of them, got 1");
  EXPECT_EQ(refused({"--ids", "1", "--save"}), "--save needs a value");
  EXPECT_EQ(refused({"--ids", "1", "--save", ""}), "--save needs the name of a file");
  EXPECT_EQ(refused({"--ids", "1", "--model", "x"}), "--model is given more than once");
  EXPECT_EQ(refused({"--ids", "1", "--json=yes"}), "--json takes no value");
  EXPECT_EQ(refused({"--ids", "1", "--color", "red"}), "--color must be auto, always or never, got 'red'");
  EXPECT_EQ(refusal({"attend", "--model", folder_.file("absent"), "--ids", "1"}),
            "headwise attend: " + folder_.file("absent") + "/config.json: no such file");
  EXPECT_EQ(refused({"--ids", "1", "--save", folder_.file("absent/trace")}),
            folder_.file("absent/trace") + ": cannot be created: No such file or directory");
  EXPECT_EQ(folder_.names().size(), 2U);
}

TEST_F(Attend, AnInterruptEndsItWith130AndWritesNothing) {
  const std::atomic<bool> cancel{true};
  CommandContext context;
  context.cancel = &cancel;
  const Result result = run(with({"--ids", "1,5,2", "--save", folder_.file("trace")}), context);
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "headwise attend: interrupted\n");
  EXPECT_EQ(folder_.names().size(), 2U);
}

TEST_F(Attend, HelpNamesEveryOptionThatIsRead) {
  const std::string help = attend_help();
  for (const char* option :
       {"--model", "--ids", "--tokens", "--layer", "--head", "--json", "--save", "--color", "--help"}) {
    EXPECT_THAT(help, HasSubstr(std::string("\n  ") + (std::strcmp(option, "--help") == 0 ? "-h, " : "") + option));
  }
}

}  // namespace
}  // namespace headwise::cli
