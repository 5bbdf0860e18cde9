// SPDX-License-Identifier: Apache-2.0
// Heads as a user writes them: L6H11.
#ifndef HEADWISE_CLI_HEAD_NAMES_H_
#define HEADWISE_CLI_HEAD_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "headwise/lens/ablation.h"

namespace headwise::cli {

// "L6H11,L0H3", each with scale 0. Throws UsageError.
std::vector<HeadScale> parse_heads(std::string_view option, const std::string& text);
// "L0H3=0.5,L1H2=2". Throws UsageError.
std::vector<HeadScale> parse_head_scales(std::string_view option, const std::string& text);

// "L6H11".
std::string head_name(Index layer, Index head);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_HEAD_NAMES_H_
