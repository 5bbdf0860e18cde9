// SPDX-License-Identifier: Apache-2.0
// One training run in its folder: checkpoint.safetensors to go on from, the model, and the learning curve.
#ifndef HEADWISE_CLI_TRAIN_RUN_H_
#define HEADWISE_CLI_TRAIN_RUN_H_

#include <initializer_list>
#include <memory>
#include <string>

#include "cli/run_command.h"
#include "headwise/checkpoints/training_file.h"
#include "headwise/models/training.h"

namespace headwise::cli {

struct TrainResult {
  std::string folder;
  DecoderConfig decoder;
  TrainingConfig training;
  Index parameters = 0;
  Index text_bytes = 0;
  double train_loss = 0;  // mean of the last steps, a hundred at most
  double validation_loss = 0;
  std::vector<Evaluation> evaluations;
  Index steps = 0;  // of this process
  double seconds = 0, tokens_per_second = 0;
};

// The whole file as bytes. Throws as MappedFile does.
std::string read_text(const std::string& path);

std::string checkpoint_of(const std::string& folder);
bool holds_run(const std::string& folder);

// Makes the folder when it is not there, and removes what killed processes left of writing these files in it. Throws
// FileError.
void make_run_folder(const std::string& folder, std::initializer_list<const char*> files);

struct TrainWatch {
  std::string label;   // which of several runs, or empty
  std::string resume;  // the folder with which --resume goes on
  Index save_every = 500, log_every = 0;
};

// Runs the steps that are left, with validations and checkpoints between, and writes everything into `folder`, which is
// made when it is not there. On Ctrl-C it saves, says how to go on, and throws Cancelled.
TrainResult run_training(Training& training, const TrainingText& text, const std::string& folder,
                         const TrainWatch& watch, const CommandContext& context);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_TRAIN_RUN_H_
