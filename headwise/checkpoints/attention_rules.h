// SPDX-License-Identifier: Apache-2.0
// Which names and layouts in a file mean which attention layer: tables. Not installed.
#ifndef HEADWISE_CHECKPOINTS_ATTENTION_RULES_H_
#define HEADWISE_CHECKPOINTS_ATTENTION_RULES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headwise {

// How the weights of queries, keys and values lie in a file. A matrix is (out, in), as nn.Linear keeps it, unless the
// layout says (in, out).
enum class WeightLayout : std::uint8_t {
  kSeparate,       // three matrices
  kSeparateInOut,  // three matrices (in, out); the output projection stays (out, in)
  kPerHead,        // three matrices for each head, "{i}" in their names
  kQkvRows,        // one matrix: the rows of all queries, then of all keys, then of all values
  kQkvColumns,     // one matrix (in, out): columns in that order; the output projection is (in, out) too
};

enum class Presence : std::uint8_t { kNever, kMaybe, kAlways };

// Names are what follows the layer's own name; no text where there is none.
struct AttentionNames {
  std::string_view query{}, key{}, value{};  // query alone where one matrix holds all three
  std::string_view query_bias{}, key_bias{}, value_bias{};
  std::string_view out{}, out_bias{};
  std::string_view query_norm{}, key_norm{};
};

struct AttentionRule {
  std::string_view family;
  WeightLayout layout;
  AttentionNames names;
  Presence out_proj = Presence::kAlways;
  std::span<const std::string_view> model_types{};  // in config.json
  std::optional<bool> causal{};                     // no value: the call or the metadata says it
  std::optional<int> heads{};                       // where the class has a fixed count
  bool rotary = false;
  // Of the norms whose names the rule has: always there, or where the file holds them; over all heads together, or
  // each.
  Presence query_key_norm = Presence::kNever;
  bool whole_norm = false;
  std::span<const std::string_view> ignored{};  // names of the layer's that are no part of its numbers
  std::string_view within{};                    // how the layer's own name must end; "{i}" stands for a number
  std::string_view counted_by{};  // the word before the layer's number; no text: the last number of its name
};

std::span<const AttentionRule> attention_rules();

// "qkv_rows": how calls and reports name a layout.
std::string_view weight_layout_name(WeightLayout layout);
// Throws ArgumentError that lists the names.
WeightLayout parse_weight_layout(std::string_view who, std::string_view name);

// Whether somebody who says `name` means the rule: its family, or one of its model types.
bool is_called(const AttentionRule& rule, std::string_view name);

// Throws ArgumentError with the nearest name for one that no rule is called.
void check_family(std::string_view who, std::string_view name);

// The text with every "{i}" replaced by the number.
std::string numbered(std::string_view pattern, int number);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_ATTENTION_RULES_H_
