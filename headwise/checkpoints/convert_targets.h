// SPDX-License-Identifier: Apache-2.0
// The families that a layer can be written as, and what each can hold: a table. Not installed.
#ifndef HEADWISE_CHECKPOINTS_CONVERT_TARGETS_H_
#define HEADWISE_CHECKPOINTS_CONVERT_TARGETS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "headwise/checkpoints/attention_rules.h"

namespace headwise {

enum class BiasRule : std::uint8_t {
  kFree,    // of queries, keys and values, and of the output: each there or not
  kShared,  // one flag for both
  kAlways,
};

struct ConvertTarget {
  std::string_view family;
  BiasRule biases = BiasRule::kFree;
  bool grouped = false;      // fewer heads of keys and values than of queries
  bool square = false;       // d_in, d_out and heads * head_dim are one width
  bool causal_only = false;  // the class masks, always
  bool positional = false;   // rotary positions, norms and a window: of files that say them in headwise's metadata
};

std::span<const ConvertTarget> convert_targets();
// Throws ArgumentError with the nearest name, or the names.
const ConvertTarget& find_target(std::string_view who, std::string_view family);
// The rule whose names and layout the target has.
const AttentionRule& rule_of(const ConvertTarget& target);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_CONVERT_TARGETS_H_
