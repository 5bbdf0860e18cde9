// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/command_binding.h"

#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "cli/environment.h"
#include "cli/run_command.h"
#include "cli/terminal.h"
#include "cli/usage.h"
#include "headwise/tensor/errors.h"
#include "python/bindings/interruptible.h"

namespace headwise::python {
namespace {

namespace nb = nanobind;

const char* variable(const char* name) { return std::getenv(name); }

// Arguments are bytes: a file name need not be UTF-8. Writes to the process's own standard output and error.
int run(const std::vector<nb::bytes>& given) {
  std::vector<std::string> arguments;
  for (const nb::bytes& argument : given) arguments.emplace_back(argument.c_str(), argument.size());
  int code = 0;
  run_interruptible(std::numeric_limits<double>::infinity(), [&](const Execution& execution) {
    code = cli::run_command(arguments, std::cout, std::cerr,
                            {cli::detect_terminal(STDOUT_FILENO, variable), execution.cancel,
                             cli::detect_terminal(STDERR_FILENO, variable)});
  });
  return code;
}

}  // namespace

void bind_command(nb::module_& module) {
  module.def("run_command", run);
  module.def("apply_environment", [] {
    try {
      cli::apply_environment(variable);
    } catch (const cli::UsageError& error) {
      throw ArgumentError(error.what());
    }
  });
}

}  // namespace headwise::python
