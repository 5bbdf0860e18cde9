// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/convert_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/io/closest_names.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr ConvertTarget kTargets[] = {
    {.family = "book", .grouped = true, .positional = true},
    {.family = "wrapper"},
    {.family = "seed"},
    {.family = "torch", .biases = BiasRule::kShared, .square = true},
    {.family = "qkv"},
    {.family = "gpt2", .biases = BiasRule::kAlways, .square = true, .causal_only = true},
    {.family = "nanogpt", .biases = BiasRule::kShared, .square = true, .causal_only = true},
    {.family = "separate", .grouped = true, .positional = true},
};

}  // namespace

std::span<const ConvertTarget> convert_targets() { return kTargets; }

const ConvertTarget& find_target(std::string_view who, std::string_view family) {
  std::vector<std::string> names;
  for (const ConvertTarget& target : kTargets) {
    if (target.family == family) return target;
    names.emplace_back(target.family);
  }
  const std::vector<std::string> closest = closest_names(family, names, 1);
  throw ArgumentError(fmt::format("{}: no layer can be written as {}{}", who, quote_name(family),
                                  closest.empty() ? fmt::format("; known: {}", fmt::join(names, ", "))
                                                  : fmt::format("; did you mean {}?", quote_name(closest.front()))));
}

const AttentionRule& rule_of(const ConvertTarget& target) {
  const auto rules = attention_rules();
  return *std::find_if(rules.begin(), rules.end(),
                       [&](const AttentionRule& rule) { return rule.family == target.family; });
}

}  // namespace headwise
