// SPDX-License-Identifier: Apache-2.0
// headwise train and generate, end to end on tiny models; tests/training_command_test.py kills the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/line_chart.h"
#include "cli/train_progress.h"
#include "tests/support/train_fixture.h"

namespace headwise::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Train, WritesAModelThatTheOtherCommandsRead) {
  const Result result = run(with("model", {"--heads", "2"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith(folder_.file("model") + ": 1 layer of 2 heads, hidden 16, context 8, "));
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
  const auto json = nlohmann::json::parse(
      run({"generate", model, "--prompt", "she ", "--tokens", "20", "--seed", "3", "--top-k", "4", "--json"}).out);
  const std::string generated =
      run({"generate", model, "--prompt", "she ", "--tokens", "20", "--seed", "3", "--top-k", "4"}).out;
  EXPECT_EQ("she " + json["generated"].get<std::string>() + "\n", generated);
  EXPECT_EQ(json["bytes"], nlohmann::json(std::vector<std::uint8_t>(generated.begin() + 4, generated.end() - 1)));
  EXPECT_EQ(json["prompt"], "she ");
  EXPECT_EQ(json["top_k"], 4);
  EXPECT_EQ(json["seed"], 3);
  EXPECT_TRUE(nlohmann::json::parse(run({"generate", model, "--tokens", "0", "--json"}).out)["prompt"].is_null());
  const Result heads = run({"attend", "--model", model, "--text", "she\nsea", "--layer", "0", "--head", "1"});
  EXPECT_EQ(heads.code, 0);
  EXPECT_THAT(heads.out, HasSubstr("Sentence 1 (7 tokens): s h e \\n s e a\n"));
  EXPECT_EQ(run({"attend", "--model", model, "she\nsea", "--layer", "0", "--head", "1"}).out, heads.out);
  EXPECT_THAT(run({"inspect", model}).out, HasSubstr("transformer.h.0.attn"));
}

TEST_F(Train, EveryWrongCallIsRefusedWithItsOwnTextAndWritesNothing) {
  EXPECT_EQ(refusal({"train"}), "headwise train: --out is needed: a folder for the model");
  EXPECT_EQ(refusal({"train", "--out", "x"}), "headwise train: --text is needed: the file to learn");
  EXPECT_EQ(refusal({"train", "--out", "x", "--resume", "x"}), "headwise train: give --out or --resume, not both");
  EXPECT_EQ(refusal({"train", "--resume", "x", "--steps", "3"}),
            "headwise train: --steps is part of the run that --resume goes on with, and cannot change");
  EXPECT_EQ(refusal({"train", "--resume", folder_.file("absent")}),
            "headwise train: --resume " + folder_.file("absent") +
                ": there is no run to go on with: neither checkpoint.safetensors nor comparison.json is there");
  EXPECT_EQ(refusal({"train", "--resume", "x", "--heads", "1,2"}),
            "headwise train: --heads is part of the run that --resume goes on with, and cannot change");
  EXPECT_EQ(refused({"--heads", "3"}), "--width=16 is not divisible by --heads=3; nearest valid --heads: 2, 4");
  EXPECT_EQ(refused({"--heads", "2,2"}), "--heads names a count twice");
  EXPECT_EQ(refused({"--seed", "-1"}), "--seed must be at least 0, got -1");
  EXPECT_EQ(refused({"--dropout", "1"}), "--dropout must be in [0, 1), got 1");
  EXPECT_EQ(refused({"--clip", "nan"}), "--clip must be a finite number, got 'nan'");
  EXPECT_EQ(refused({"--clip", "x"}), "--clip must be a number, got 'x'");
  EXPECT_EQ(refused({"--seed", "9223372036854775808"}),
            "--seed must be a whole number below 2^63, got '9223372036854775808'");
  EXPECT_EQ(refusal({"train", "--resume", ""}), "headwise train: --resume needs the name of a folder");
  EXPECT_EQ(refusal({"train", "--text", text_, "--out", text_}), "headwise train: " + text_ + ": is not a folder");
  EXPECT_EQ(refused({"--learning-rate", "0"}), "--learning-rate must be above 0, got 0");
  EXPECT_EQ(refused({"--warm-up", "12"}), "--warm-up must be below --steps, which is 12, got 12");
  EXPECT_EQ(refused({"--save-every", "-1"}), "--save-every must be at least 0, got -1");
  EXPECT_EQ(refused({"--log-every", "-2"}), "--log-every must be at least 0, got -2");
  EXPECT_EQ(refused({"--eval-every", "-2"}), "--eval-every must be at least 0, got -2");
  EXPECT_EQ(refused({"--warm-up", "-2"}), "--warm-up must be at least 0, got -2");
  for (const char* option : {"--width", "--depth", "--context", "--batch", "--steps", "--heads", "--seeds"}) {
    EXPECT_EQ(refused({option, "0"}), std::string(option) + " must be at least 1, got 0");
    EXPECT_EQ(refused({option, "-1"}), std::string(option) + " must be at least 1, got -1");
  }
  EXPECT_EQ(refused({"--width", "16777217"}), "--width must be at most 16777216, got 16777217");
  EXPECT_EQ(refused({"--last-learning-rate", "0.5"}),
            "--last-learning-rate must be from 0 to --learning-rate, which is 0.001, got 0.5");
  EXPECT_EQ(refused({"--beta1", "1"}), "--beta1 must be in [0, 1), got 1");
  EXPECT_EQ(refused({"--beta2", "-1"}), "--beta2 must be in [0, 1), got -1");
  EXPECT_EQ(refused({"--weight-decay", "-1"}), "--weight-decay must be at least 0, got -1");
  EXPECT_EQ(refused({"--clip", "-1"}), "--clip must be at least 0, got -1");
  EXPECT_EQ(refused({"--log-every", "x"}), "--log-every must be a whole number, got 'x'");
  std::vector<std::string> short_text = with("new", {});
  short_text[2] = folder_.write("short.txt", "she sells sea shells");
  EXPECT_EQ(refusal(short_text),
            "headwise train: " + folder_.file("short.txt") +
                " has 20 bytes; nine tenths of it and one tenth must each be longer than --context, which is 8: at "
                "least 90 bytes");
  for (const char* heads : {"1", "1,2"}) {
    std::vector<std::string> empty_text = with("new", {"--heads", heads});
    empty_text[2] = folder_.write("empty.txt", "");
    EXPECT_EQ(refusal(empty_text),
              "headwise train: " + folder_.file("empty.txt") + " is empty: there is nothing to learn");
  }
  short_text[2] = folder_.file("absent.txt");
  EXPECT_EQ(refusal(short_text), "headwise train: " + folder_.file("absent.txt") + ": no such file");
  short_text[2] = folder_.path();
  EXPECT_EQ(run(short_text).code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("new")));
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
