// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/text_table.h"
#include "cli/usage.h"
#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"

namespace headwise::cli {
namespace {

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise info\n"
    "  headwise info --json\n"
    "\n"
    "Usage: headwise info [--json]\n"
    "\n"
    "The version, the instruction set that the kernels run on, and the threads. Results have the same bits on every\n"
    "instruction set and any number of threads.\n"
    "\n"
    "Options:\n"
    "  --json      one JSON document\n"
    "  -h, --help  this text\n"
    "\n"
    "Environment: HEADWISE_NUM_THREADS (a number), HEADWISE_ISA (avx512, avx2, neon, canonical).\n";

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Isa isa : available_isas()) names.emplace_back(isa_name(isa));
  return names;
}

}  // namespace

CommandResult info_command(std::span<const std::string> arguments, const CommandContext&) {
  CLI::App app;
  app.set_help_flag("");
  bool json = false, help = false;
  app.add_flag("--json", json)->disable_flag_override();
  app.add_flag("-h,--help", help)->disable_flag_override();
  parse_arguments(app, arguments);
  if (help) return kHelp;
  const std::string chosen(isa_name(chosen_isa()));
  if (json) {
    const nlohmann::ordered_json document{{"schema", 1},   {"command", "info"},   {"version", HEADWISE_VERSION},
                                          {"isa", chosen}, {"isas", isa_names()}, {"threads", num_threads()}};
    return document.dump() + "\n";
  }
  const std::vector<std::string> rows[] = {{"version", HEADWISE_VERSION},
                                           {"instruction set", chosen},
                                           {"available", fmt::format("{}", fmt::join(isa_names(), ", "))},
                                           {"threads", std::to_string(num_threads())}};
  const Align columns[] = {Align::kLeft, Align::kLeft};
  return "headwise\n" + text_table(columns, rows);
}

}  // namespace headwise::cli
