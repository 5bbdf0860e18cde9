// SPDX-License-Identifier: Apache-2.0
// The library's messages in the words of a command's options.
#ifndef HEADWISE_CLI_OPTION_WORDS_H_
#define HEADWISE_CLI_OPTION_WORDS_H_

#include <string>
#include <string_view>

namespace headwise::cli {

// "load: num_heads=3 was given, but a.safetensors says 2" -> "--heads 3 was given, but a.safetensors says 2": names of
// arguments that the command has as options, where the library names an argument.
std::string in_option_words(std::string_view command, std::string_view message);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_OPTION_WORDS_H_
