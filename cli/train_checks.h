// SPDX-License-Identifier: Apache-2.0
// What `headwise train` was given, checked under the names of its options.
#ifndef HEADWISE_CLI_TRAIN_CHECKS_H_
#define HEADWISE_CLI_TRAIN_CHECKS_H_

#include <string>

#include "cli/train_options.h"

namespace headwise::cli {

// Throws UsageError "--width must be at least 1, got 0" for the first size or rate that no run can have.
void check_train_options(const TrainOptions& options);

// Throws UsageError that names the file unless nine tenths of the text and one tenth each hold a sequence.
void check_text_length(const std::string& path, const std::string& bytes, Index context);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_TRAIN_CHECKS_H_
