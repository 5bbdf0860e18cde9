// SPDX-License-Identifier: Apache-2.0
// What the place that results go to can show.
#ifndef HEADWISE_CLI_TERMINAL_H_
#define HEADWISE_CLI_TERMINAL_H_

#include <functional>

namespace headwise::cli {

struct Terminal {
  bool colour = false;  // 256 colours are understood and wanted
  int width = 100;      // columns
  bool lively = false;  // a person looks at it: a line may be written over
};

// The file descriptor as it is, under NO_COLOR, TERM and COLORTERM as `variable` gives them (null: not set). Colours
// need a terminal whose TERM is set and not "dumb", and NO_COLOR unset or empty.
Terminal detect_terminal(int descriptor, const std::function<const char*(const char*)>& variable);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_TERMINAL_H_
