// SPDX-License-Identifier: Apache-2.0
// What `headwise train` did, as text for people, as JSON, and as the files of a comparison.
#ifndef HEADWISE_CLI_TRAIN_REPORT_H_
#define HEADWISE_CLI_TRAIN_REPORT_H_

#include <span>
#include <string>

#include "cli/train_run.h"

namespace headwise::cli {

// One model.
std::string train_text(const TrainResult& result);
// Several models of one size: validation losses by head count, over the seeds.
std::string compare_text(const std::string& folder, std::span<const TrainResult> results);
std::string compare_csv(std::span<const TrainResult> results);
std::string compare_svg(std::span<const TrainResult> results);

// Schema 1, one line, for one model or several.
std::string train_json(const std::string& folder, std::span<const TrainResult> results);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_TRAIN_REPORT_H_
