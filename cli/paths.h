// SPDX-License-Identifier: Apache-2.0
// Paths on the command line: what may not be overwritten, and how to show one so that it can be copied.
#ifndef HEADWISE_CLI_PATHS_H_
#define HEADWISE_CLI_PATHS_H_

#include <string>
#include <string_view>

namespace headwise::cli {

// Throws UsageError "--out 'x.npy' would replace what is read; give another name" where `out` is the file `in`, by
// whatever path or link, or a file in the folder `in` or beside the index `in` of sharded weights.
void check_output_apart(std::string_view argument, const std::string& out, const std::string& in);

// The path as a word for a shell: as it is, or in single quotes where it has other than letters, digits and ._-/+:,@%=.
std::string shell_word(std::string_view path);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_PATHS_H_
