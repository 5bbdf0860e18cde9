// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/encoder_config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "headwise/layers/attention_config.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {

void check_config(const EncoderConfig& config) {
  const char* who = "Encoder";
  const std::pair<const char*, Index> sizes[] = {{"layers", config.layers},
                                                 {"hidden", config.hidden},
                                                 {"heads", config.heads},
                                                 {"vocab", config.vocab},
                                                 {"positions", config.positions},
                                                 {"type_vocab", config.type_vocab},
                                                 {"intermediate", config.intermediate}};
  for (const auto& [name, value] : sizes) check_width(who, name, value);
  check_divisible(who, "hidden", config.hidden, "heads", config.heads);
  if (!(config.layer_norm_eps >= 0 && std::isfinite(config.layer_norm_eps))) {
    throw ArgumentError(
        fmt::format("{}: layer_norm_eps must be a finite number >= 0, got {}", who, config.layer_norm_eps));
  }
  if (config.activation != "gelu") {
    throw ArgumentError(fmt::format("{}: activation must be \"gelu\", got \"{}\"", who, config.activation));
  }
}

}  // namespace headwise
