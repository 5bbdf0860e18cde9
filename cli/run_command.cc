// SPDX-License-Identifier: Apache-2.0
#include "cli/run_command.h"

#include <fmt/format.h>

#include <cerrno>
#include <exception>
#include <new>
#include <ostream>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/option_words.h"
#include "cli/usage.h"
#include "headwise/io/file_error.h"
#include "headwise/runtime/execution.h"

namespace headwise::cli {
namespace {

constexpr Command kCommands[] = {
    {"attend", "what every head of a trained model does with a sentence", attend_command},
    {"run", "a layer on an array: its output, and what its heads do", run_layer_command},
    {"explain", "a layer's shapes and numbers, step by step", nullptr},
    {"diagnose", "the name of a layer's mistake", nullptr},
    {"compare", "two layers, number by number", nullptr},
    {"stats", "statistics of heads", nullptr},
    {"inspect", "what attention a file holds", inspect_command},
    {"convert", "a layer in another layout", convert_command},
    {"view", "a trace as a page", nullptr},
    {"train", "a small model on a text", train_command},
    {"generate", "text from a trained model", generate_command},
    {"bench", "times of this machine", nullptr},
    {"info", "the version, and what it runs on here", info_command},
};

std::string help() {
  std::string text =
      "Examples:\n"
      "  headwise attend --model DIR --ids 101,1996,4937,102\n"
      "  headwise attend --model DIR --ids 101,1996,4937,102 --layer 0 --head 3\n"
      "  headwise train --text book.txt --out book-model\n"
      "  headwise generate book-model --prompt \"Call me\"\n"
      "  headwise info\n"
      "\n"
      "Usage: headwise COMMAND [OPTIONS]\n"
      "\n"
      "Commands:\n";
  for (const Command& command : kCommands) {
    if (command.run != nullptr) text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  }
  return text +
         "\n"
         "  headwise COMMAND --help  says more about one of them\n"
         "  headwise --version       gives the version\n"
         "\n"
         "Exit codes: 0 done, 1 a check said no, 2 wrong usage or bad input, 130 interrupted.\n";
}

std::vector<std::string> ready_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.run != nullptr) names.emplace_back(command.name);
  }
  return names;
}

// Throws UsageError for a name that is none, or one of the plan whose time has not come.
const Command& find_command(const std::string& name) {
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    if (command.run != nullptr) return command;
    throw UsageError(fmt::format("'{}' is not there yet; version {} has: {}", name, HEADWISE_VERSION,
                                 fmt::join(ready_names(), ", ")));
  }
  if (!name.starts_with('-'))
    throw UsageError("unknown command " + quote_name(name) + did_you_mean(name, ready_names()));
  const std::vector<std::string> options{"--help", "--version"};
  throw UsageError("unknown option " + quote_name(name) + did_you_mean(name, options));
}

std::string results(std::span<const std::string> arguments, std::string& who, const CommandContext& context) {
  if (arguments.empty()) throw UsageError("a command is needed");
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") return help();
  if (first == "--version") return fmt::format("headwise {}\n", HEADWISE_VERSION);
  const Command& command = find_command(first);
  who += " " + first;
  return command.run(arguments.subspan(1), context);
}

// A reader that closed its end has seen enough: that is not an error.
int write_results(const std::string& text, const std::string& who, std::ostream& out, std::ostream& err) {
  errno = 0;
  out << text << std::flush;
  if (out.good()) return kDone;
  const int error = errno;
  if (error == EPIPE) return kDone;
  err << who << ": the results cannot be written" << (error == 0 ? "" : ": " + std::generic_category().message(error))
      << "\n";
  return kBadInput;
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

int run_command(std::span<const std::string> arguments, std::ostream& out, std::ostream& err,
                const CommandContext& context) {
  std::string who = "headwise";
  CommandContext with_messages = context;
  with_messages.messages = &err;
  try {
    return write_results(results(arguments, who, with_messages), who, out, err);
  } catch (const UsageError& error) {
    err << who << ": " << error.what() << "\nTry '" << who << " --help'.\n";
  } catch (const Cancelled&) {
    err << who << ": interrupted\n";
    return kInterrupted;
  } catch (const std::bad_alloc&) {
    err << who << ": not enough memory\n";
  } catch (const std::exception& error) {
    const std::string command = arguments.empty() ? "" : arguments.front();
    err << who << ": " << in_option_words(command, error.what()) << "\n";
  }
  return kBadInput;
}

}  // namespace headwise::cli
