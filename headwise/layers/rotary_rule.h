// SPDX-License-Identifier: Apache-2.0
// How a layer turns its queries and keys by their positions, and every check of it.
#ifndef HEADWISE_LAYERS_ROTARY_RULE_H_
#define HEADWISE_LAYERS_ROTARY_RULE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// Which numbers of a head make pair i: i and i + rotary_dim / 2 (Llama, Mistral, Qwen), or 2 i and 2 i + 1 (RoFormer).
enum class RotaryStyle : std::uint8_t { kHalfSplit, kInterleaved };

enum class RotaryScaling : std::uint8_t {
  kNone,
  kLinear,  // frequencies / factor
  kLlama3,  // the same for long waves, none for short ones, a blend between
  kYarn,    // likewise, by how many turns a wave takes in the original context (Peng et al., arXiv 2309.00071)
};

// Pair i of the token at position p is turned by p * base^(-2 i / rotary_dim), before scaling.
struct RotaryRule {
  RotaryStyle style = RotaryStyle::kHalfSplit;
  Index rotary_dim = 0;  // the first numbers of each head; 0: all of them
  double base = 10000;
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1;
  // Of kLlama3: waves longer than original_context / low_freq_factor are long, those shorter than original_context /
  // high_freq_factor short.
  double low_freq_factor = 1, high_freq_factor = 4;
  Index original_context = 8192;  // of kYarn too
  // Of kYarn: pairs that turn more than beta_fast times in the original context keep their frequency, those that turn
  // less than beta_slow times get it divided by factor; both borders are rounded outwards to whole pairs unless
  // `rounded` is false. Turned queries and keys are multiplied by attention_factor, each.
  double beta_fast = 32, beta_slow = 1, attention_factor = 1;
  bool rounded = true;

  bool operator==(const RotaryRule&) const = default;
};

// "half_split"; "none", "linear", "llama3", "yarn": how files and reports name them.
std::string_view rotary_style_name(RotaryStyle style);
std::string_view rotary_scaling_name(RotaryScaling scaling);
// "half_split, rotary_dim=8, base=10000"; with a scaling also ", linear, factor=2".
std::string rotary_text(const RotaryRule& rule);

// Throws ArgumentError "<who>: rotary ..." for a rule that heads of this width cannot have.
void check_rotary(std::string_view who, const RotaryRule& rule, Index head_dim);

// What turned queries and keys are multiplied by.
inline double rotary_amplitude(const RotaryRule& rule) {
  return rule.scaling == RotaryScaling::kYarn ? rule.attention_factor : 1.0;
}

// Radians per token of each pair, scaled: rotary_dim / 2 of them.
std::vector<double> rotary_frequencies(const RotaryRule& rule, Index head_dim);

}  // namespace headwise

#endif  // HEADWISE_LAYERS_ROTARY_RULE_H_
