// SPDX-License-Identifier: Apache-2.0
// headwise train and generate, end to end on tiny models; tests/training_command_test.py kills the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
    // An option that is there already gets the other value.
    for (std::size_t i = 0; i < more.size(); ++i) {
      const auto found = std::find(arguments.begin(), arguments.end(), more[i]);
      if (found == arguments.end() || i + 1 == more.size() || !more[i].starts_with("--")) {
        arguments.push_back(more[i]);
      } else {
        *(found + 1) = more[++i];
      }
    }
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
  const std::string generated = run({"generate", model, "--prompt", "she ", "--tokens", "20", "--seed", "3", "--top-k", "4"}).out;
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
  const std::string several = folder_.file("several");
  for (const char* heads : {"1,2", "2"}) {
    EXPECT_EQ(refusal(with("several", {"--heads", heads})),
              "headwise train: --out " + several + " holds a comparison already: give another folder, or --resume " +
                  several);
  }
  std::filesystem::remove_all(folder_.file("several/heads-4-seed-1"));
  const std::string csv = folder_.read("several/losses.csv");
  EXPECT_EQ(run({"train", "--resume", several}).out, result.out);
  EXPECT_EQ(folder_.read("several/losses.csv"), csv);
  EXPECT_EQ(refusal({"train", "--resume", several, "--clip", "2"}),
            "headwise train: --clip is part of the run that --resume goes on with, and cannot change");
  const std::string other = folder_.write("other.txt", std::string(660, 'x'));
  EXPECT_THAT(refusal({"train", "--resume", several, "--text", other}),
              StartsWith("headwise train: " + other + " is not the text of this run: it has 660 bytes, fnv1a "));
  std::filesystem::remove_all(folder_.file("several/heads-1-seed-0"));
  ASSERT_EQ(run(with("several/heads-1-seed-0", {"--heads", "1", "--clip", "2"})).code, 0);
  EXPECT_EQ(refusal({"train", "--resume", several}),
            "headwise train: " + several + "/heads-1-seed-0 holds a run with other options than its comparison");
}

TEST_F(Train, AComparisonThatWasInterruptedGoesOnByItsFolderAlone) {
  const std::vector<std::string> options{"--heads", "1,2", "--seeds", "2", "--dropout", "0.1", "--seed", "7"};
  ASSERT_EQ(run(with("whole", options)).code, 0);
  std::vector<std::string> logged = options;
  logged.insert(logged.end(), {"--log-every", "1"});
  const std::string broken = folder_.file("broken");
  for (const char* at : {"1 head, seed 7: step 3 ", "2 heads, seed 7: step 5 ", "1 head, seed 8: step 12 "}) {
    const Result result = interrupted(with("broken", logged), at);
    EXPECT_EQ(result.code, 130);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, testing::ContainsRegex("seed [78]: saved after [0-9]+ of 12 steps; headwise train "));
    EXPECT_THAT(result.err, testing::EndsWith(" of 12 steps; headwise train --resume " + broken +
                                              " goes on\nheadwise train: interrupted\n"));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("broken/losses.csv")));
    // Interrupted once more, while it goes on; the text has moved and is found by --text.
    std::filesystem::rename(text_, folder_.file("moved.txt"));
    EXPECT_EQ(refusal({"train", "--resume", broken}), "headwise train: " + text_ + ": no such file");
    const Result again = interrupted(
        {"train", "--resume", broken, "--text", folder_.file("moved.txt"), "--log-every", "1"}, "seed 8: step 2 ");
    EXPECT_THAT((std::vector<int>{0, 130}), testing::Contains(again.code)) << again.err;
    const Result done = run({"train", "--resume", broken});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.out, StartsWith("Validation loss by the number of heads, nats per byte; "));
    std::filesystem::rename(folder_.file("moved.txt"), text_);
    for (const char* one : {"heads-1-seed-7", "heads-2-seed-7", "heads-1-seed-8", "heads-2-seed-8"}) {
      for (const char* file : {"model.safetensors", "config.json", "curve.csv", "curve.svg"}) {
        const std::string name = std::string("/") + one + "/" + file;
        EXPECT_EQ(folder_.read("broken" + name), folder_.read("whole" + name)) << at << name;
      }
    }
    for (const char* file : {"losses.csv", "losses.svg"}) {
      EXPECT_EQ(folder_.read(std::string("broken/") + file), folder_.read(std::string("whole/") + file));
    }
    std::filesystem::remove_all(broken);
  }
}

TEST_F(Train, WhatAKilledProcessLeftIsRemovedWhenTheRunGoesOn) {
  ASSERT_EQ(run(with("several", {"--heads", "1,2"})).code, 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const std::string end = ".tmp-" + std::to_string(child) + "-0";
  const std::vector<std::string> stale{"several/losses.svg", "several/comparison.json", "several/heads-1-seed-0/curve.svg",
                                       "several/heads-2-seed-0/checkpoint.safetensors"};
  for (const std::string& name : stale) folder_.write(name + end, "half");
  folder_.write("several/notes.txt" + end, "mine");
  EXPECT_EQ(run({"train", "--resume", folder_.file("several")}).code, 0);
  for (const std::string& name : stale) EXPECT_FALSE(std::filesystem::exists(folder_.file(name + end))) << name;
  EXPECT_EQ(folder_.read("several/notes.txt" + end), "mine");
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
  EXPECT_EQ(refused({"--clip", "nan"}), "--clip must be a number, got 'nan'");
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
            "headwise generate: --prompt: byte 0x78 at 0 was not in the text that the model was trained on");
  EXPECT_EQ(refusal({"generate"}), "headwise generate: a folder is needed, as headwise train writes it");
  EXPECT_EQ(refusal({"generate", model, "--temperature", "-1"}),
            "headwise generate: --temperature must be at least 0, got -1");
  EXPECT_EQ(refusal({"generate", model, "--top-k", "0"}), "headwise generate: --top-k must be at least 1, got 0");
  EXPECT_EQ(refusal({"generate", model, "--prompt", ""}), "headwise generate: --prompt must not be empty");
  EXPECT_EQ(refusal({"attend", "--model", model, "--text", "xyz"}),
            "headwise attend: the text: byte 0x78 at 0 was not in the text that the model was trained on");
  EXPECT_EQ(refusal({"attend", "--model", model, "--text", "she sells"}),
            "headwise attend: the text has 9 tokens; the model takes 8");
  ASSERT_EQ(run(with("deep", {"--depth", "3", "--heads", "2"})).code, 0);
  std::string config = folder_.read("deep/config.json");
  config.replace(config.find("\"n_layer\": 3"), 12, "\"n_layer\": 2");
  folder_.write("deep/config.json", config);
  const std::string deep = folder_.file("deep"), weights = deep + "/model.safetensors";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"generate", deep}, std::vector<std::string>{"attend", "--model", deep, "--text", "she"}}) {
    EXPECT_EQ(refusal(words), "headwise " + words[0] + ": " + weights +
                                  ": stores 3 attention layers, but its config counts 2 (n_layer)");
  }
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
