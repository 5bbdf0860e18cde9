// SPDX-License-Identifier: Apache-2.0
// The whole command line as one function: the program and the Python entry point both call it.
#ifndef HEADWISE_CLI_RUN_COMMAND_H_
#define HEADWISE_CLI_RUN_COMMAND_H_

#include <atomic>
#include <iosfwd>
#include <span>
#include <string>

#include "cli/terminal.h"

namespace headwise::cli {

// 0: done. 1: a check said no. 2: wrong usage, bad input, or results that could not be written. 130: interrupted.
inline constexpr int kDone = 0;
inline constexpr int kCheckFailed = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kInterrupted = 130;

struct CommandContext {
  Terminal terminal;                          // of `out`
  const std::atomic<bool>* cancel = nullptr;  // raised when the user interrupts
  Terminal message_terminal{};                // of `err`
  std::ostream* messages = nullptr;           // run_command sets it to `err`: progress, and nothing that is a result
};

// Runs "headwise <arguments>" and gives its exit code. Results go to `out`, all at once and only when there was no
// error; messages go to `err`. It neither throws nor reads the environment.
int run_command(std::span<const std::string> arguments, std::ostream& out, std::ostream& err,
                const CommandContext& context = {});

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_RUN_COMMAND_H_
