// SPDX-License-Identifier: Apache-2.0
// Runs and comparisons of headwise train that were broken off and go on, and what they refuse to go on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/train_fixture.h"

namespace headwise::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

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
  const std::vector<std::string> stale{"several/losses.svg", "several/comparison.json",
                                       "several/heads-1-seed-0/curve.svg",
                                       "several/heads-2-seed-0/checkpoint.safetensors"};
  for (const std::string& name : stale) folder_.write(name + end, "half");
  folder_.write("several/notes.txt" + end, "mine");
  EXPECT_EQ(run({"train", "--resume", folder_.file("several")}).code, 0);
  for (const std::string& name : stale) EXPECT_FALSE(std::filesystem::exists(folder_.file(name + end))) << name;
  EXPECT_EQ(folder_.read("several/notes.txt" + end), "mine");
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
  for (const std::vector<std::string>& words : {std::vector<std::string>{"generate", deep},
                                                std::vector<std::string>{"attend", "--model", deep, "--text", "she"}}) {
    EXPECT_EQ(refusal(words), "headwise " + words[0] + ": " + weights +
                                  ": stores 3 attention layers, but its config counts 2 (n_layer)");
  }
  folder_.write("model/config.json", R"({"model_type": "nanogpt", "tokenizer": "bytes", "n_layer": 1})");
  EXPECT_EQ(refusal({"generate", model}), "headwise generate: " + model + "/config.json: has no \"n_head\"");
}

}  // namespace
}  // namespace headwise::cli
