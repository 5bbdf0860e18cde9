// SPDX-License-Identifier: Apache-2.0
// One head's weights as a picture in the terminal: a row for each query token, a cell for each key token.
#ifndef HEADWISE_CLI_SHADED_TABLE_H_
#define HEADWISE_CLI_SHADED_TABLE_H_

#include <span>
#include <string>

#include "cli/terminal.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise::cli {

// Tokens [begin, end).
struct TokenWindow {
  Index begin = 0, end = 0;
};

// `length` of `count` tokens around `centre`, or all of them.
TokenWindow window_around(Index centre, Index length, Index count);

// weights: (seq, seq), queries by keys; tokens: seq. Cells are percent, with a shade (or, with colours, a background)
// that grows with the weight. A sentence too large for the terminal is shown around its largest weight, and a line
// below says what is left out.
std::string shaded_table(TensorView<const float, 2> weights, std::span<const std::string> tokens,
                         const Terminal& terminal);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_SHADED_TABLE_H_
