// SPDX-License-Identifier: Apache-2.0
// headwise train and generate, end to end on tiny models; tests/training_command_test.py kills the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/line_chart.h"
#include "cli/train_options.h"
#include "cli/train_progress.h"
#include "headwise/checkpoints/training_file.h"
#include "tests/support/command_result.h"
#include "tests/support/temporary_folder.h"

namespace headwise::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Train : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int n = 0; n < 30; ++n) text += "she sells sea shells.\n";
    text_ = folder_.write("text.txt", text);
  }

  std::vector<std::string> with(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"train", "--text", text_, "--out", folder_.file(out), "--depth", "1", "--width"};
    arguments.insert(arguments.end(), {"16", "--context", "8", "--batch", "2", "--steps", "12", "--eval-every", "5"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string refused(const std::vector<std::string>& more) const {
    std::string text = refusal(with("new", more));
    if (text.starts_with("headwise train: ")) text.erase(0, 16);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("new"))) << text;
    return text;
  }
  // Raised after so many lines of the log.
  Result interrupted(const std::vector<std::string>& arguments, const std::string& at) const {
    std::atomic<bool> cancel{false};
    struct Watcher : std::stringbuf {
      std::atomic<bool>* raise;
      std::string at;
      int sync() override {
        if (str().find(at) != std::string::npos) raise->store(true);
        return 0;
      }
    } watcher;
    watcher.raise = &cancel;
    watcher.at = at;
    std::ostream err(&watcher);
    std::ostringstream out;
    CommandContext context;
    context.cancel = &cancel;
    const int code = run_command(arguments, out, err, context);
    return {code, out.str(), watcher.str()};
  }

  TemporaryFolder folder_;
  std::string text_;
};

TEST_F(Train, WritesAModelThatTheOtherCommandsRead) {
  const Result result = run(with("model", {"--heads", "2"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith(folder_.file("model") + ": 1 layers of 2 heads, hidden 16, context 8, "));
  EXPECT_THAT(result.out, HasSubstr("\n  text        660 bytes, of which 8 different ones are the vocabulary\n"));
  EXPECT_THAT(folder_.read("model/curve.csv"), StartsWith("step,train_loss,validation_loss\n0,"));
  EXPECT_THAT(folder_.read("model/curve.svg"), StartsWith("<svg "));
  const std::string model = folder_.file("model");
  const Result text = run({"generate", model, "--prompt", "she ", "--tokens", "20", "--seed", "3"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, testing::MatchesRegex("she [a-z .\n]{20}\n"));
  EXPECT_EQ(run({"generate", model, "--prompt", "she ", "--tokens", "20", "--seed", "3"}).out, text.out);
  EXPECT_NE(run({"generate", model, "--prompt", "she ", "--tokens", "20", "--seed", "4"}).out, text.out);
  EXPECT_EQ(run({"generate", model, "--tokens", "5"}).out.size(), 6U);
  const Result heads = run({"attend", "--model", model, "--text", "she\nsea", "--layer", "0", "--head", "1"});
  EXPECT_EQ(heads.code, 0);
  EXPECT_THAT(heads.out, HasSubstr("Sentence 1 (7 tokens): s h e \\n s e a\n"));
  EXPECT_EQ(run({"attend", "--model", model, "she\nsea", "--layer", "0", "--head", "1"}).out, heads.out);
  EXPECT_THAT(run({"inspect", model}).out, HasSubstr("transformer.h.0.attn"));
}

TEST_F(Train, ARunThatWasInterruptedGoesOnToTheSameFiles) {
  ASSERT_EQ(run(with("whole", {"--heads", "2", "--dropout", "0.1"})).code, 0);
  for (const char* at : {"step 3 ", "step 5 ", "step 10  validation"}) {
    const std::vector<std::string> arguments = with("broken", {"--heads", "2", "--dropout", "0.1", "--log-every", "1"});
    const Result broken = interrupted(arguments, at);
    EXPECT_EQ(broken.code, 130);
    EXPECT_EQ(broken.out, "");
    EXPECT_THAT(broken.err,
                HasSubstr(" of 12 steps; headwise train --resume " + folder_.file("broken") + " goes on\n"));
    EXPECT_THAT(broken.err, testing::EndsWith("headwise train: interrupted\n"));
    EXPECT_EQ(run({"train", "--resume", folder_.file("broken")}).code, 0);
    for (const char* file : {"model.safetensors", "config.json", "checkpoint.safetensors", "curve.csv", "curve.svg"}) {
      EXPECT_EQ(folder_.read(std::string("broken/") + file), folder_.read(std::string("whole/") + file)) << file;
    }
    std::filesystem::remove_all(folder_.file("broken"));
  }
}

TEST_F(Train, AComparisonGivesATableAndGoesOn) {
  const Result result = run(with("several", {"--heads", "1,2,4", "--seeds", "2"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith("Validation loss by the number of heads, nats per byte; "));
  EXPECT_THAT(folder_.read("several/losses.csv"), StartsWith("heads,seed,train_loss,validation_loss\n1,0,"));
  const auto json = nlohmann::json::parse(folder_.read("several/losses.json"));
  EXPECT_EQ(json["runs"].size(), 6U);
  EXPECT_EQ(json["by_heads"][2]["heads"], 4);
  const double low = json["by_heads"][0]["lowest"], high = json["by_heads"][0]["highest"];
  EXPECT_NEAR(json["by_heads"][0]["mean"], (low + high) / 2, 1e-12);
  EXPECT_NEAR(json["by_heads"][0]["spread"], (high - low) / std::sqrt(2.0), 1e-12);
  EXPECT_EQ(refusal(with("several", {"--heads", "1,2"})),
            "headwise train: --out " + folder_.file("several") +
                "/heads-1-seed-0 holds a run already: give another folder, or --resume");
  std::filesystem::remove_all(folder_.file("several/heads-4-seed-1"));
  const std::string csv = folder_.read("several/losses.csv");
  std::vector<std::string> again = with("several", {"--heads", "1,2,4", "--seeds", "2"});
  again[3] = "--resume";
  EXPECT_EQ(run(again).out, result.out);
  EXPECT_EQ(folder_.read("several/losses.csv"), csv);
  again.insert(again.end(), {"--clip", "2"});
  EXPECT_EQ(refusal(again),
            "headwise train: " + folder_.file("several") + "/heads-1-seed-0 holds a run with other options");
}

TEST_F(Train, EveryWrongCallIsRefusedWithItsOwnTextAndWritesNothing) {
  EXPECT_EQ(refusal({"train"}), "headwise train: --out is needed: a folder for the model");
  EXPECT_EQ(refusal({"train", "--out", "x"}), "headwise train: --text is needed: the file to learn");
  EXPECT_EQ(refusal({"train", "--out", "x", "--resume", "x"}), "headwise train: give --out or --resume, not both");
  EXPECT_EQ(refusal({"train", "--resume", "x", "--steps", "3"}),
            "headwise train: --steps is part of the run that --resume goes on with, and cannot change");
  EXPECT_EQ(refusal({"train", "--resume", folder_.file("absent")}),
            "headwise train: " + folder_.file("absent") + "/checkpoint.safetensors: no such file");
  EXPECT_EQ(refused({"--heads", "3"}), "Decoder: hidden=16 is not divisible by heads=3; nearest valid heads: 2, 4");
  EXPECT_EQ(refused({"--heads", "2,2"}), "--heads names a count twice");
  EXPECT_EQ(refused({"--seeds", "0"}), "--seeds must be at least 1, got 0");
  EXPECT_EQ(refused({"--seed", "-1"}), "--seed must be at least 0, got -1");
  EXPECT_EQ(refused({"--dropout", "1"}), "Decoder: dropout must be in [0, 1), got 1");
  EXPECT_EQ(refused({"--clip", "nan"}), "--clip must be a number, got 'nan'");
  EXPECT_EQ(refused({"--learning-rate", "0"}), "training: learning_rate must be a finite number > 0, got 0");
  EXPECT_EQ(refused({"--warm-up", "12"}), "training: warm_up must be in 0..steps - 1, got 12");
  EXPECT_EQ(refused({"--save-every", "-1"}), "--save-every must be at least 0");
  EXPECT_EQ(refused({"--log-every", "x"}), "--log-every must be a whole number, got 'x'");
  std::vector<std::string> short_text = with("new", {});
  short_text[2] = folder_.write("short.txt", "she sells sea shells");
  EXPECT_EQ(refusal(short_text),
            "headwise train: training: the text has 20 bytes; nine tenths of it and one tenth must each be longer than "
            "context=8: at least 90 bytes");
  short_text[2] = folder_.file("absent.txt");
  EXPECT_EQ(refusal(short_text), "headwise train: " + folder_.file("absent.txt") + ": no such file");
  short_text[2] = folder_.path();
  EXPECT_EQ(run(short_text).code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("new")));
}

TEST_F(Train, AnotherTextOrAFileThatIsNoRunIsRefused) {
  ASSERT_EQ(run(with("model", {"--heads", "2"})).code, 0);
  const std::string model = folder_.file("model"), other = folder_.write("other.txt", std::string(700, 'x'));
  EXPECT_THAT(refusal({"train", "--resume", model, "--text", other}),
              StartsWith("headwise train: " + other + " is not the text of this run: it has 700 bytes, fnv1a "));
  std::filesystem::copy_file(folder_.file("model/model.safetensors"), folder_.file("model/checkpoint.safetensors"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(refusal({"train", "--resume", model}),
            "headwise train: " + model + "/checkpoint.safetensors: is no training run: metadata 'format' is 'pt'");
  EXPECT_EQ(refusal({"generate", model, "--prompt", "xyz"}),
            "headwise generate: vocabulary: byte 0x78 at 0 was not in the text that the model was trained on");
  EXPECT_EQ(refusal({"generate"}), "headwise generate: a folder is needed, as headwise train writes it");
  EXPECT_EQ(refusal({"generate", model, "--temperature", "-1"}),
            "headwise generate: --temperature must be at least 0, got -1");
  EXPECT_EQ(refusal({"generate", model, "--top-k", "0"}), "headwise generate: --top-k must be at least 1, got 0");
  EXPECT_EQ(refusal({"generate", model, "--prompt", ""}), "headwise generate: --prompt must not be empty");
  EXPECT_EQ(refusal({"attend", "--model", model, "--text", "she sells"}),
            "headwise attend: the text has 9 tokens; the model takes 8");
  folder_.write("model/config.json", R"({"model_type": "nanogpt", "tokenizer": "bytes", "n_layer": 1})");
  EXPECT_EQ(refusal({"generate", model}), "headwise generate: " + model + "/config.json: has no \"n_head\"");
}

TEST_F(Train, ShowsItsProgressOnATerminalAndTakesTheLineAway) {
  CommandContext context;
  context.message_terminal = {.colour = false, .width = 60, .lively = true};
  const Result result = run(with("model", {"--heads", "2"}), context);
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("1/12  loss "));
  EXPECT_THAT(result.err, HasSubstr("step 5  validation loss "));
  EXPECT_THAT(result.err, testing::Not(testing::EndsWith("left")));
  EXPECT_EQ(clock_text(65), "1:05");
  EXPECT_EQ(clock_text(7650), "2:07:30");
}

TEST(LineChart, DrawsEverySeriesWithItsNameAndLeavesOutWhatIsNoNumber) {
  Chart chart{"a < b", "x", "y", {{"first", {{1, 2}, {2, 3}, {4, std::nan("")}}}, {"", {{1, 1}}, false, true}}, true};
  const std::string svg = line_chart_svg(chart);
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr(">first</text>"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
  std::size_t dots = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++dots;
  EXPECT_EQ(dots, 3U);
  EXPECT_THAT(line_chart_svg({}), StartsWith("<svg "));
}

}  // namespace
}  // namespace headwise::cli
