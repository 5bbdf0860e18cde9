// SPDX-License-Identifier: Apache-2.0
// Columns of text, lined up as a terminal shows them.
#ifndef HEADWISE_CLI_TEXT_TABLE_H_
#define HEADWISE_CLI_TEXT_TABLE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise::cli {

enum class Align : bool { kLeft, kRight };

// Terminal columns of UTF-8 text: wide characters count 2, combining marks 0. Bytes that are no UTF-8 count 1 each.
int display_width(std::string_view text);

// At most `width` columns, the last one an ellipsis where something was cut off.
std::string cut_to_width(std::string_view text, int width);

// With blanks up to `width` columns.
std::string pad(std::string_view text, int width, Align align);

// Every row has one text for each column; columns are two blanks apart, lines indented by two.
std::string text_table(std::span<const Align> columns, std::span<const std::vector<std::string>> rows);

// "1 layer", "2 layers".
std::string counted(Index count, std::string_view thing);

// With so many decimals. What is no number: "nan", without the sign that its bits may have.
std::string number_text(double value, int decimals);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_TEXT_TABLE_H_
