// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/rotary_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/kernels/rotary.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

Index turned_width(const RotaryRule& rule, Index head_dim) { return rule.rotary_dim == 0 ? head_dim : rule.rotary_dim; }

// Llama 3.1: published with its code; the wave is how many tokens one turn takes.
double llama3_frequency(const RotaryRule& rule, double frequency) {
  constexpr double kTurn = 6.283185307179586;
  const auto context = static_cast<double>(rule.original_context);
  const double wave = kTurn / frequency;
  if (wave < context / rule.high_freq_factor) return frequency;
  if (wave > context / rule.low_freq_factor) return frequency / rule.factor;
  const double blend = (context / wave - rule.low_freq_factor) / (rule.high_freq_factor - rule.low_freq_factor);
  return (1 - blend) * frequency / rule.factor + blend * frequency;
}

// The pair, as a real number, that turns so many times in the original context.
double pair_of_turns(const RotaryRule& rule, Index width, double turns) {
  constexpr double kTurn = 6.283185307179586;
  const double longest = static_cast<double>(rule.original_context) / (turns * kTurn);
  return static_cast<double>(width) * natural_logarithm(longest) / (2 * natural_logarithm(rule.base));
}

// How far a pair is interpolated: from 0, frequencies as they are, to 1, divided by factor.
std::vector<double> yarn_shares(const RotaryRule& rule, Index width) {
  double low = pair_of_turns(rule, width, rule.beta_fast), high = pair_of_turns(rule, width, rule.beta_slow);
  if (rule.rounded) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(width - 1));
  if (low == high) high += 0.001;  // as the published code has it
  std::vector<double> shares;
  for (Index pair = 0; pair < width / 2; ++pair) {
    shares.push_back(std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0));
  }
  return shares;
}

}  // namespace

std::string_view rotary_style_name(RotaryStyle style) {
  return style == RotaryStyle::kInterleaved ? "interleaved" : "half_split";
}

std::string_view rotary_scaling_name(RotaryScaling scaling) {
  constexpr std::string_view kNames[] = {"none", "linear", "llama3", "yarn"};
  return kNames[static_cast<std::size_t>(scaling)];
}

std::string rotary_text(const RotaryRule& rule) {
  std::string text = fmt::format("{}, rotary_dim={}, base={}", rotary_style_name(rule.style),
                                 rule.rotary_dim == 0 ? "head_dim" : std::to_string(rule.rotary_dim), rule.base);
  if (rule.scaling == RotaryScaling::kNone) return text;
  text += fmt::format(", {}, factor={}", rotary_scaling_name(rule.scaling), rule.factor);
  if (rule.scaling == RotaryScaling::kLinear) return text;
  if (rule.scaling == RotaryScaling::kYarn) {
    return text + fmt::format(", beta_fast={}, beta_slow={}, attention_factor={}, rounded={}, original_context={}",
                              rule.beta_fast, rule.beta_slow, rule.attention_factor, rule.rounded,
                              rule.original_context);
  }
  return text + fmt::format(", low_freq_factor={}, high_freq_factor={}, original_context={}", rule.low_freq_factor,
                            rule.high_freq_factor, rule.original_context);
}

void check_rotary(std::string_view who, const RotaryRule& rule, Index head_dim) {
  // Beyond these, an angle could leave the range in which its sine is right.
  constexpr double kLargest = 1e12;
  const auto refuse = [&](const std::string& reason) {
    throw ArgumentError(fmt::format("{}: rotary {}", who, reason));
  };
  if (rule.rotary_dim < 0 || rule.rotary_dim > head_dim) {
    refuse(fmt::format("rotary_dim must be in 0..head_dim={}, got {}", head_dim, rule.rotary_dim));
  }
  if (turned_width(rule, head_dim) % 2 != 0) {
    refuse(fmt::format("turns pairs: rotary_dim must be even, got {}", turned_width(rule, head_dim)));
  }
  if (!(rule.base > 1 && rule.base <= kLargest)) {
    refuse(fmt::format("base must be above 1 and at most {}, got {}", kLargest, rule.base));
  }
  if (rule.scaling == RotaryScaling::kNone) return;
  if (!(rule.factor >= 1 && rule.factor <= kLargest)) {
    refuse(fmt::format("factor must be in 1..{}, got {}", kLargest, rule.factor));
  }
  if (rule.scaling == RotaryScaling::kLinear) return;
  if (rule.original_context < 1) {
    refuse(fmt::format("original_context must be at least 1, got {}", rule.original_context));
  }
  if (rule.scaling == RotaryScaling::kYarn) {
    if (!(rule.beta_slow > 0 && rule.beta_slow <= rule.beta_fast && rule.beta_fast <= kLargest)) {
      refuse(fmt::format("beta_slow must be above 0 and at most beta_fast, got {} and {}", rule.beta_slow,
                         rule.beta_fast));
    }
    if (!(rule.attention_factor > 0 && rule.attention_factor <= kLargest)) {
      refuse(fmt::format("attention_factor must be above 0 and at most {}, got {}", kLargest, rule.attention_factor));
    }
    return;
  }
  if (!(rule.low_freq_factor > 0 && rule.low_freq_factor < rule.high_freq_factor &&
        std::isfinite(rule.high_freq_factor))) {
    refuse(fmt::format("low_freq_factor must be above 0 and below high_freq_factor, got {} and {}",
                       rule.low_freq_factor, rule.high_freq_factor));
  }
}

std::vector<double> rotary_frequencies(const RotaryRule& rule, Index head_dim) {
  const Index width = turned_width(rule, head_dim);
  std::vector<double> frequencies;
  const std::vector<double> shares =
      rule.scaling == RotaryScaling::kYarn ? yarn_shares(rule, width) : std::vector<double>{};
  for (Index pair = 0; pair < width / 2; ++pair) {
    double frequency = falling_power(rule.base, static_cast<double>(2 * pair) / static_cast<double>(width));
    if (rule.scaling == RotaryScaling::kLinear) frequency /= rule.factor;
    if (rule.scaling == RotaryScaling::kLlama3) frequency = llama3_frequency(rule, frequency);
    if (!shares.empty()) frequency = frequency / rule.factor * shares[pair] + frequency * (1 - shares[pair]);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace headwise
