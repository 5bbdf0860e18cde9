// SPDX-License-Identifier: Apache-2.0
#include "cli/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/usage.h"
#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "tests/support/command_result.h"
#include "tests/support/file_bytes.h"

namespace headwise::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(RunCommand, HelpStartsWithExamplesAndNamesEveryCommandThatIsThere) {
  for (const char* option : {"--help", "-h", "help"}) {
    const Result result = run({option});
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, StartsWith("Examples:\n  headwise attend"));
    EXPECT_THAT(result.out,
                HasSubstr("\n  info      say the version, the instruction set and the threads used here\n"));
  }
  EXPECT_THAT(run({"attend", "--help"}).out, StartsWith("Examples:\n  headwise attend"));
  EXPECT_THAT(run({"info", "-h"}).out, StartsWith("Examples:\n  headwise info"));
  for (const char* option : {"--help", "-h", "help"}) {
    EXPECT_EQ(run({option, "train"}).out, run({"train", "--help"}).out);
    EXPECT_EQ(refusal({option, "trian"}), "headwise: unknown command 'trian'; did you mean 'train'?");
  }
}

TEST(RunCommand, VersionIsOneLine) { EXPECT_THAT(run({"--version"}).out, testing::MatchesRegex("headwise [0-9.]+\n")); }

TEST(RunCommand, WrongNamesAreRefusedWithTheNearestOne) {
  EXPECT_EQ(refusal({}), "headwise: a command is needed");
  EXPECT_EQ(refusal({"atend"}), "headwise: unknown command 'atend'; did you mean 'attend'?");
  EXPECT_EQ(refusal({"zzz"}), "headwise: unknown command 'zzz'");
  EXPECT_EQ(refusal({"--verson"}), "headwise: unknown option '--verson'; did you mean '--version'?");
  EXPECT_EQ(refusal({"attend", "--modle", "x"}), "headwise attend: unknown option '--modle'; did you mean '--model'?");
  EXPECT_EQ(refusal({"info", "--jsn=1"}), "headwise info: unknown option '--jsn'; did you mean '--json'?");
  EXPECT_EQ(refusal({"info", "more"}), "headwise info: unexpected argument 'more'");
  EXPECT_EQ(run({"atend"}).err, "headwise: unknown command 'atend'; did you mean 'attend'?\nTry 'headwise --help'.\n");
}

TEST(RunCommand, NamesOfThePlanAreRefusedAsNotYetThere) {
  const std::string version = run({"--version"}).out.substr(9, 5);
  std::string there;
  for (const Command& command : commands()) {
    if (command.run != nullptr) there += (there.empty() ? "" : ", ") + std::string(command.name);
  }
  for (const Command& command : commands()) {
    if (command.run != nullptr) continue;
    EXPECT_EQ(refusal({command.name}),
              std::string("headwise: '") + command.name + "' is not there yet; version " + version + " has: " + there);
  }
}

TEST(RunCommand, TheHelpOfEveryCommandStartsWithExamplesOfItself) {
  for (const Command& command : commands()) {
    if (command.run == nullptr) continue;
    for (const char* option : {"--help", "-h"}) {
      const Result result = run({command.name, option});
      EXPECT_EQ(result.code, 0) << command.name;
      EXPECT_EQ(result.err, "") << command.name;
      EXPECT_THAT(result.out, StartsWith(std::string("Examples:\n  headwise ") + command.name)) << command.name;
      EXPECT_THAT(result.out, HasSubstr(std::string("\nUsage: headwise ") + command.name)) << command.name;
    }
  }
}

TEST(RunCommand, EveryCommandNamesAnUnknownOption) {
  for (const Command& command : commands()) {
    if (command.run == nullptr) continue;
    EXPECT_EQ(refusal({command.name, "--hepl"}),
              std::string("headwise ") + command.name + ": unknown option '--hepl'; did you mean '--help'?");
  }
}

TEST(RunCommand, ResultsThatCannotBeWrittenAreAnErrorButAClosedReaderIsNot) {
  std::ofstream full("/dev/full");
  std::ostringstream err;
  EXPECT_EQ(run_command(std::vector<std::string>{"info"}, full, err), 2);
  EXPECT_EQ(err.str(), "headwise info: the results cannot be written: No space left on device\n");

  struct ClosedPipe : std::streambuf {
    int overflow(int) override {
      errno = EPIPE;
      return traits_type::eof();
    }
  } buffer;
  std::ostream closed(&buffer);
  err.str("");
  EXPECT_EQ(run_command(std::vector<std::string>{"info"}, closed, err), 0);
  EXPECT_EQ(err.str(), "");
}

TEST(Info, SaysVersionInstructionSetAndThreads) {
  const std::string isa(isa_name(chosen_isa()));
  EXPECT_THAT(run({"info"}).out, HasSubstr("instruction set  " + isa + "\n"));
  const auto json = nlohmann::json::parse(run({"info", "--json"}).out);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["isa"], isa);
  EXPECT_EQ(json["threads"], num_threads());
}

TEST(Environment, BadValuesAreRefusedByTheVariablesName) {
  const auto with = [](const std::map<std::string, std::string>& variables) {
    return message_of([&] {
      apply_environment([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      });
    });
  };
  const int threads = num_threads();
  for (const char* value : {"0", "-1", "x", "", "5000", "2 "}) {
    EXPECT_EQ(with({{"HEADWISE_NUM_THREADS", value}}),
              std::string("HEADWISE_NUM_THREADS must be a whole number from 1 to 4096, got '") + value + "'");
  }
  EXPECT_EQ(num_threads(), threads);
  EXPECT_EQ(with({{"HEADWISE_NUM_THREADS", "3"}, {"HEADWISE_ISA", "canonical"}}), "nothing thrown");
  EXPECT_EQ(num_threads(), 3);
  EXPECT_EQ(chosen_isa(), Isa::kCanonical);
  set_num_threads(threads);
  force_isa({});
  EXPECT_THAT(with({{"HEADWISE_ISA", "sse9"}}), StartsWith("HEADWISE_ISA must be one that this machine has ("));
  EXPECT_THAT(with({{"HEADWISE_ISA", "sse9"}}), HasSubstr("canonical), got 'sse9'"));
}

}  // namespace
}  // namespace headwise::cli
