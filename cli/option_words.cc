// SPDX-License-Identifier: Apache-2.0
#include "cli/option_words.h"

#include <algorithm>
#include <array>

namespace headwise::cli {
namespace {

struct OptionWord {
  std::string_view command, argument, option;
};

// What the library calls an argument, and what the command calls it. inspect takes none of them, but says who does.
constexpr OptionWord kWords[] = {
    {"run", "num_heads", "--heads"},   {"run", "causal", "--causal"},
    {"run", "family", "--family"},     {"run", "kind", "--kind"},
    {"run", "layer", "--layer"},       {"convert", "num_heads", "--heads"},
    {"convert", "causal", "--causal"}, {"convert", "family", "--from"},
    {"convert", "layer", "--layer"},   {"inspect", "family", "--family of run, --from of convert"},
};

constexpr std::array<std::string_view, 3> kWho{"load: ", "convert: ", "inspect: "};
// What follows a name where the library speaks of an argument that is missing or wrong.
constexpr std::array<std::string_view, 4> kVerbs{" is neither", " is needed", " must be", " (MultiHeadAttention or"};

bool begins_a_word(std::string_view text, std::size_t at) {
  return at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
}

// How many characters of what follows the name belong to it: "=" where a value comes, none before a verb, which only
// the first word of a message has; npos where the library speaks of something else.
std::size_t joint_after(std::string_view rest, bool is_first) {
  if (rest.starts_with('=')) return 1;
  const bool is_verb =
      is_first && std::any_of(kVerbs.begin(), kVerbs.end(), [&](auto verb) { return rest.starts_with(verb); });
  return is_verb ? 0 : std::string_view::npos;
}

void replace(std::string& text, const OptionWord& word) {
  for (std::size_t at = text.find(word.argument); at != std::string::npos; at = text.find(word.argument, at + 1)) {
    const std::string_view rest = std::string_view(text).substr(at + word.argument.size());
    const std::size_t joint = joint_after(rest, at == 0);
    if (!begins_a_word(text, at) || joint == std::string_view::npos) continue;
    const bool has_value = joint == 1 && rest.size() > 1 && rest[1] != ' ';
    text.replace(at, word.argument.size() + joint, std::string(word.option) + (has_value ? " " : ""));
    at += word.option.size();
  }
}

}  // namespace

std::string in_option_words(std::string_view command, std::string_view message) {
  if (std::none_of(std::begin(kWords), std::end(kWords), [&](const auto& word) { return word.command == command; })) {
    return std::string(message);
  }
  for (const std::string_view who : kWho) {
    if (message.starts_with(who)) message.remove_prefix(who.size());
  }
  std::string text(message);
  for (const OptionWord& word : kWords) {
    if (word.command == command) replace(text, word);
  }
  return text;
}

}  // namespace headwise::cli
