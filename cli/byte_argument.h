// SPDX-License-Identifier: Apache-2.0
// A text of the command line as the tokens of a byte-level model.
#ifndef HEADWISE_CLI_BYTE_ARGUMENT_H_
#define HEADWISE_CLI_BYTE_ARGUMENT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "headwise/models/byte_text.h"

namespace headwise::cli {

// Throws UsageError "--prompt: byte 0x78 at 0 was not in the text that the model was trained on".
std::vector<std::int64_t> encode_argument(std::string_view name, std::string_view text,
                                          const ByteVocabulary& vocabulary);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_BYTE_ARGUMENT_H_
