// SPDX-License-Identifier: Apache-2.0
// Names for token ids, out of the vocab.txt that lies beside many models.
#ifndef HEADWISE_CLI_VOCABULARY_H_
#define HEADWISE_CLI_VOCABULARY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headwise::cli {

// Line n of `path` names id n. An id without a line, or whose line is not UTF-8, names itself. Throws FileNotFound and
// FileError as MappedFile does.
std::vector<std::string> name_tokens(const std::string& path, std::span<const std::int64_t> ids);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_VOCABULARY_H_
