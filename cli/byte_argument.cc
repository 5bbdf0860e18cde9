// SPDX-License-Identifier: Apache-2.0
#include "cli/byte_argument.h"

#include <string>

#include "cli/usage.h"
#include "headwise/tensor/errors.h"

namespace headwise::cli {

std::vector<std::int64_t> encode_argument(std::string_view name, std::string_view text,
                                          const ByteVocabulary& vocabulary) {
  constexpr std::string_view kWho = "vocabulary: ";
  try {
    return vocabulary.encode(text);
  } catch (const ArgumentError& error) {
    const std::string_view reason = error.what();
    throw UsageError(
        std::string(name).append(": ").append(reason.starts_with(kWho) ? reason.substr(kWho.size()) : reason));
  }
}

}  // namespace headwise::cli
