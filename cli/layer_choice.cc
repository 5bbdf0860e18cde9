// SPDX-License-Identifier: Apache-2.0
#include "cli/layer_choice.h"

#include <fmt/format.h>

#include "cli/usage.h"
#include "headwise/io/file_error.h"

namespace headwise::cli {

void take_layer(const std::string& text, AttentionChoice& choice) {
  if (text.empty()) throw UsageError("--layer needs a number or a name");
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    choice.layer = parse_count("--layer", text);
  } else {
    choice.name = text;
  }
}

bool parse_flag(std::string_view option, const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  throw UsageError(fmt::format("{} must be true or false, got {}", option, quote_name(text)));
}

}  // namespace headwise::cli
