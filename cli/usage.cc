// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "headwise/io/closest_names.h"
#include "headwise/io/file_error.h"

namespace headwise::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

[[noreturn]] void refuse_stray(const CLI::App& app, const std::string& stray) {
  if (!stray.starts_with('-')) throw UsageError("unexpected argument " + quote_name(stray));
  const std::string name = stray.substr(0, stray.find('='));
  throw UsageError("unknown option " + quote_name(name) + did_you_mean(name, option_names(app)));
}

// The parser's "--save: 1 required TEXT missing" and its like, which start with the option's name.
std::string in_our_words(const std::string& message) {
  const std::string option = message.substr(0, message.find_first_of(": "));
  const auto says = [&](std::string_view part) { return message.find(part) != std::string::npos; };
  if (says("missing")) return option + " needs a value";
  if (says("At Most")) return option + " is given more than once";
  // This one message has the name without its dashes.
  if (says("flag override")) return (option.starts_with('-') ? "" : "--") + option + " takes no value";
  return message;
}

}  // namespace

std::string did_you_mean(std::string_view wrong, std::span<const std::string> names) {
  const std::vector<std::string> closest = closest_names(wrong, names, 1);
  return closest.empty() ? "" : "; did you mean " + quote_name(closest.front()) + "?";
}

void parse_arguments(CLI::App& app, std::span<const std::string> arguments) {
  app.allow_extras();
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw UsageError(in_our_words(error.what()));
  }
  const std::vector<std::string> strays = app.remaining();
  if (!strays.empty()) refuse_stray(app, strays.front());
}

std::vector<std::string> take_paths(std::span<const std::string> given, std::span<const std::string_view> names) {
  if (given.size() > names.size()) throw UsageError("unexpected argument " + quote_name(given[names.size()]));
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].empty()) throw UsageError(fmt::format("{} must not be empty", names[i]));
  }
  if (given.size() == names.size()) return {given.begin(), given.end()};
  throw UsageError(fmt::format("{} {} needed", fmt::join(names, " and "), names.size() == 1 ? "is" : "are"));
}

Index parse_count(std::string_view option, std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  const char* range = error == std::errc::result_out_of_range ? " below 2^63" : "";
  throw UsageError(fmt::format("{} must be a whole number{}, got {}", option, range, quote_name(text)));
}

double parse_number(std::string_view option, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && std::isfinite(value)) return value;
  throw UsageError(fmt::format("{} must be a {}number, got {}", option, is_number ? "finite " : "", quote_name(text)));
}

std::vector<std::int64_t> parse_counts(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || stop != part.data() + part.size()) {
      throw UsageError(fmt::format("{} must be whole numbers with commas between, got {}", option, quote_name(text)));
    }
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

void check_range(std::string_view option, Index value, Index count) {
  if (value >= 0 && value < count) return;
  throw UsageError(fmt::format("{} must be in 0..{}, got {}", option, count - 1, value));
}

}  // namespace headwise::cli
