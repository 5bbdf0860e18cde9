// SPDX-License-Identifier: Apache-2.0
// Reading a command's arguments, and the errors of reading them.
#ifndef HEADWISE_CLI_USAGE_H_
#define HEADWISE_CLI_USAGE_H_

#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace CLI {
class App;
}

namespace headwise::cli {

// What the user wrote cannot be meant so.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// "; did you mean 'attend'?", or nothing when no name is near.
std::string did_you_mean(std::string_view wrong, std::span<const std::string> names);

// Parses the arguments into what was added to `app`. Throws UsageError; an unknown option comes with the nearest one.
void parse_arguments(CLI::App& app, std::span<const std::string> arguments);

// The arguments that are no options, one for each name. Throws UsageError "IN and OUT are needed", "IN must not be
// empty" or "unexpected argument 'x'".
std::vector<std::string> take_paths(std::span<const std::string> given, std::span<const std::string_view> names);
inline std::vector<std::string> take_paths(std::span<const std::string> given,
                                           std::initializer_list<std::string_view> names) {
  return take_paths(given, std::span(names.begin(), names.size()));
}

// A whole number of an option's text. Throws UsageError "--layer must be a whole number, got 'x'".
Index parse_count(std::string_view option, std::string_view text);
// Throws UsageError "--clip must be a number, got 'x'"; infinities and NaN are none.
double parse_number(std::string_view option, std::string_view text);
// Comma-separated.
std::vector<std::int64_t> parse_counts(std::string_view option, std::string_view text);

// Throws UsageError "--layer must be in 0..5, got 6".
void check_range(std::string_view option, Index value, Index count);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_USAGE_H_
