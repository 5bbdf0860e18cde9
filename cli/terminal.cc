// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace headwise::cli {

Terminal detect_terminal(int descriptor, const std::function<const char*(const char*)>& variable) {
  const auto text = [&](const char* name) {
    const char* value = variable(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  Terminal terminal;
  if (::isatty(descriptor) == 0) return terminal;
  terminal.lively = text("TERM") != "dumb";
  terminal.colour = text("NO_COLOR").empty() && !text("TERM").empty() && text("TERM") != "dumb";
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.width = std::clamp<int>(size.ws_col, 40, 400);
  }
  return terminal;
}

}  // namespace headwise::cli
