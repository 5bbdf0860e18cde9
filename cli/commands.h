// SPDX-License-Identifier: Apache-2.0
// The table of commands. Each has a file of its own, <name>_command.cc; that of `run` is run_layer_command.cc.
#ifndef HEADWISE_CLI_COMMANDS_H_
#define HEADWISE_CLI_COMMANDS_H_

#include <span>
#include <string>

#include "cli/run_command.h"

namespace headwise::cli {

// Gives the text for standard output. Throws UsageError, and what the library throws.
using CommandFunction = std::string (*)(std::span<const std::string> arguments, const CommandContext& context);

struct Command {
  const char* name;
  const char* summary;
  CommandFunction run;  // null: a name of the plan that this version does not have yet
};

std::span<const Command> commands();

std::string attend_command(std::span<const std::string> arguments, const CommandContext& context);
std::string convert_command(std::span<const std::string> arguments, const CommandContext& context);
std::string generate_command(std::span<const std::string> arguments, const CommandContext& context);
std::string info_command(std::span<const std::string> arguments, const CommandContext& context);
std::string inspect_command(std::span<const std::string> arguments, const CommandContext& context);
std::string run_layer_command(std::span<const std::string> arguments, const CommandContext& context);
std::string train_command(std::span<const std::string> arguments, const CommandContext& context);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_COMMANDS_H_
