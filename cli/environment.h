// SPDX-License-Identifier: Apache-2.0
// The variables that the command reads; the library reads none.
#ifndef HEADWISE_CLI_ENVIRONMENT_H_
#define HEADWISE_CLI_ENVIRONMENT_H_

#include <functional>

namespace headwise::cli {

// HEADWISE_NUM_THREADS and HEADWISE_ISA, as `variable` gives them (null: not set). Throws UsageError naming the
// variable.
void apply_environment(const std::function<const char*(const char*)>& variable);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_ENVIRONMENT_H_
