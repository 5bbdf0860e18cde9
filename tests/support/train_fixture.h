// SPDX-License-Identifier: Apache-2.0
// `headwise train` on a tiny text, in a folder of its own.
#ifndef HEADWISE_TESTS_SUPPORT_TRAIN_FIXTURE_H_
#define HEADWISE_TESTS_SUPPORT_TRAIN_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command_result.h"
#include "tests/support/temporary_folder.h"

namespace headwise::cli {

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

}  // namespace headwise::cli

#endif  // HEADWISE_TESTS_SUPPORT_TRAIN_FIXTURE_H_
