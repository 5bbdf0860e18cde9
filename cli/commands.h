// SPDX-License-Identifier: Apache-2.0
// The table of commands. Each has a file of its own, <name>_command.cc; that of `run` is run_layer_command.cc.
#ifndef HEADWISE_CLI_COMMANDS_H_
#define HEADWISE_CLI_COMMANDS_H_

#include <span>
#include <string>
#include <utility>

#include "cli/run_command.h"

namespace headwise::cli {

// What a command did: the text for standard output, and the exit code, kDone or kCheckFailed.
struct CommandResult {
  CommandResult(std::string given) : text(std::move(given)) {}  // NOLINT(google-explicit-constructor)
  CommandResult(const char* given) : text(given) {}             // NOLINT(google-explicit-constructor)
  CommandResult(std::string given, int exit) : text(std::move(given)), code(exit) {}

  std::string text;
  int code = kDone;
};

// Throws UsageError, and what the library throws.
using CommandFunction = CommandResult (*)(std::span<const std::string> arguments, const CommandContext& context);

struct Command {
  const char* name;
  const char* summary;
  CommandFunction run;  // null: a name of the plan that this version does not have yet
};

std::span<const Command> commands();

CommandResult attend_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult compare_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult convert_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult diagnose_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult explain_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult generate_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult info_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult inspect_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult run_layer_command(std::span<const std::string> arguments, const CommandContext& context);
CommandResult train_command(std::span<const std::string> arguments, const CommandContext& context);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_COMMANDS_H_
