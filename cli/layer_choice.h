// SPDX-License-Identifier: Apache-2.0
// Options with which a command is told which layer of a checkpoint is meant.
#ifndef HEADWISE_CLI_LAYER_CHOICE_H_
#define HEADWISE_CLI_LAYER_CHOICE_H_

#include <string>
#include <string_view>

#include "headwise/checkpoints/attention_choice.h"

namespace headwise::cli {

// --layer: a number, or a name as inspect shows it. Throws UsageError.
void take_layer(const std::string& text, AttentionChoice& choice);

// "true" or "false". Throws UsageError "--causal must be true or false, got 'yes'".
bool parse_flag(std::string_view option, const std::string& text);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_LAYER_CHOICE_H_
