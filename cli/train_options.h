// SPDX-License-Identifier: Apache-2.0
// What `headwise train` was asked for.
#ifndef HEADWISE_CLI_TRAIN_OPTIONS_H_
#define HEADWISE_CLI_TRAIN_OPTIONS_H_

#include <span>
#include <string>
#include <vector>

#include "headwise/models/training.h"

namespace headwise::cli {

struct TrainOptions {
  std::string text;  // file; with `resume` it may be empty
  std::string out;   // folder
  bool resume = false;
  std::vector<Index> heads{4};  // one model for each, and for each of the seeds
  Index seeds = 1;              // training.seed, training.seed + 1, ...
  bool compare = false;         // several models; with `resume` the folder says it
  DecoderConfig decoder;        // heads apart; vocab comes from the text
  TrainingConfig training;
  Index save_every = 500;  // 0: only when all steps are done, or on Ctrl-C
  Index log_every = 0;     // plain lines; 0: none
  bool json = false;
  bool help = false;
};

// Throws UsageError. Nothing is read from disk; with `resume`, what the folder holds stands for all that changes
// numbers.
TrainOptions parse_train(std::span<const std::string> arguments);

const char* train_help();

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_TRAIN_OPTIONS_H_
