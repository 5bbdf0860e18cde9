// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cli/environment.h"
#include "cli/run_command.h"
#include "cli/terminal.h"
#include "cli/usage.h"

namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The second Ctrl-C ends the process at once.
void interrupt(int signal) {
  interrupted.store(true, std::memory_order_relaxed);
  std::signal(signal, SIG_DFL);
}

const char* variable(const char* name) { return std::getenv(name); }

}  // namespace

int main(int count, char** values) {
  std::signal(SIGINT, interrupt);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is then an error of the write, which the command passes over quietly
  try {
    headwise::cli::apply_environment(variable);
  } catch (const headwise::cli::UsageError& error) {
    std::cerr << "headwise: " << error.what() << "\n";
    return headwise::cli::kBadInput;
  }
  const std::vector<std::string> arguments(values + (count > 0 ? 1 : 0), values + count);
  return headwise::cli::run_command(arguments, std::cout, std::cerr,
                                    {headwise::cli::detect_terminal(STDOUT_FILENO, variable), &interrupted,
                                     headwise::cli::detect_terminal(STDERR_FILENO, variable)});
}
