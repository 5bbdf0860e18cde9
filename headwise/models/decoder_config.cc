// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/decoder_config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "headwise/layers/attention_config.h"
#include "headwise/models/activation_name.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {

void check_config(const DecoderConfig& config) {
  const char* who = "Decoder";
  const std::pair<const char*, Index> sizes[] = {
      {"layers", config.layers}, {"hidden", config.hidden},       {"heads", config.heads},
      {"vocab", config.vocab},   {"positions", config.positions}, {"intermediate", config.feed_forward()}};
  for (const auto& [name, value] : sizes) check_width(who, name, value);
  check_divisible(who, "hidden", config.hidden, "heads", config.heads);
  check_activation(who, config.activation);
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw ArgumentError(fmt::format("{}: dropout must be in [0, 1), got {}", who, config.dropout));
  }
  if (!(config.layer_norm_eps >= 0 && std::isfinite(config.layer_norm_eps))) {
    throw ArgumentError(
        fmt::format("{}: layer_norm_eps must be a finite number >= 0, got {}", who, config.layer_norm_eps));
  }
}

}  // namespace headwise
