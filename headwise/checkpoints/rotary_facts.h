// SPDX-License-Identifier: Apache-2.0
// What config.json of a Llama, Mistral, Qwen or OLMo 2 says about the rotary positions and the window of a layer. Not
// installed.
#ifndef HEADWISE_CHECKPOINTS_ROTARY_FACTS_H_
#define HEADWISE_CHECKPOINTS_ROTARY_FACTS_H_

#include <optional>

#include "headwise/checkpoints/config_file.h"
#include "headwise/layers/rotary_rule.h"

namespace headwise {

// From rope_theta, rope_scaling and rope_parameters, which is what newer files have in place of both; without them what
// the families' own classes take. Throws FileError for a scaling that headwise does not compute, by its name.
RotaryRule rotary_of(const ConfigFile& config);

// How many keys before its own a query of layer `number` sees; no value: all of them. Throws FileError when the config
// has windows in some layers and the number is not known, or is that of a model_type whose window headwise cannot read.
std::optional<Index> window_of(const ConfigFile& config, std::optional<Index> number);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_ROTARY_FACTS_H_
