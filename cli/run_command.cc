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

// The most common first; --help lists them in this order.
constexpr Command kCommands[] = {
    {"attend", "show what every head of a trained model does with a sentence: shapes, shares, weights", attend_command},
    {"run", "put an array through one attention layer: its output, weights and statistics per head", run_layer_command},
    {"explain", "walk one input through a layer: shapes, memory, numbers, and what comes of leaving a step out",
     explain_command},
    {"diagnose", "name the mistake behind a layer's wrong output", diagnose_command},
    {"compare", "put heads in a loop, stacked, weight-split and a single head side by side: equality, time",
     compare_command},
    {"inspect", "list the attention layers that a safetensors file or a model folder holds", inspect_command},
    {"convert", "write one attention layer in another family's names and layout, every bit kept", convert_command},
    {"train", "train a small GPT-type model on a text, or compare head counts at equal size", train_command},
    {"generate", "write text with a model that train made", generate_command},
    {"info", "say the version, the instruction set and the threads used here", info_command},
    {"stats", "statistics of heads", nullptr},
    {"view", "a trace as a page", nullptr},
    {"bench", "times of this machine", nullptr},
};

std::string help() {
  std::string text =
      "Examples:\n"
      "  headwise attend --model DIR --ids 101,1996,4937,102               # every head of a model, a line each\n"
      "  headwise attend --model DIR --ids 101,1996,4937,102 --layer 0 --head 3\n"
      "  headwise run layer.safetensors x.npy --out out.npz --weights\n"
      "  headwise inspect model.safetensors\n"
      "  headwise convert gpt2/ layer3.safetensors --to torch --layer 3\n"
      "  headwise explain                                                   # one input through a layer, step by step\n"
      "  headwise train --text book.txt --out book-model\n"
      "  headwise generate book-model --prompt \"Call me\"\n"
      "  headwise attend --model book-model --text \"Call me\"              # a model of train reads bytes\n"
      "\n"
      "Usage: headwise COMMAND [OPTIONS]\n"
      "\n"
      "Multi-head attention on this machine's CPU: look into the heads of trained models, run and convert single "
      "layers,\n"
      "train small models. Files are safetensors, npy and npz; results have the same bits on every machine.\n"
      "\n"
      "Commands:\n";
  for (const Command& command : kCommands) {
    if (command.run != nullptr) text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  }
  return text +
         "\n"
         "  headwise COMMAND --help  says more about one of them, with examples and every option\n"
         "  headwise --version       gives the version\n"
         "\n"
         "Results go to standard output, as one JSON document with --json (docs/json.md); messages go to standard "
         "error.\n"
         "Environment: HEADWISE_NUM_THREADS (a number), HEADWISE_ISA (avx512, avx2, neon, canonical), NO_COLOR.\n"
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

CommandResult results(std::span<const std::string> arguments, std::string& who, const CommandContext& context) {
  if (arguments.empty()) throw UsageError("a command is needed");
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    if (arguments.size() == 1) return help();
    const std::vector<std::string> its_help{"--help"};
    return find_command(arguments[1]).run(its_help, context);
  }
  if (first == "--version") return fmt::format("headwise {}\n", HEADWISE_VERSION);
  const Command& command = find_command(first);
  who += " " + first;
  return command.run(arguments.subspan(1), context);
}

// A reader that closed its end has seen enough: that is not an error.
int write_results(const CommandResult& result, const std::string& who, std::ostream& out, std::ostream& err) {
  errno = 0;
  out << result.text << std::flush;
  if (out.good()) return result.code;
  const int error = errno;
  if (error == EPIPE) return result.code;
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
