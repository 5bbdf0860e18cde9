// SPDX-License-Identifier: Apache-2.0
// One run of the command as a test sees it.
#ifndef HEADWISE_TESTS_SUPPORT_COMMAND_RESULT_H_
#define HEADWISE_TESTS_SUPPORT_COMMAND_RESULT_H_

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/run_command.h"

namespace headwise::cli {

struct Result {
  int code = 0;
  std::string out, err;
};

inline Result run(const std::vector<std::string>& arguments, const CommandContext& context = {}) {
  std::ostringstream out, err;
  const int code = run_command(arguments, out, err, context);
  return {code, out.str(), err.str()};
}

// A refused call: nothing on standard output, exit code 2. Gives the message without its last line.
inline std::string refusal(const std::vector<std::string>& arguments) {
  const Result result = run(arguments);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  std::string text = result.err;
  const std::size_t hint = text.find("Try '");
  if (hint != std::string::npos) text.resize(hint);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace headwise::cli

#endif  // HEADWISE_TESTS_SUPPORT_COMMAND_RESULT_H_
