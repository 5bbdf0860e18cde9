// SPDX-License-Identifier: Apache-2.0
// How far a training run is, on standard error: a line that is written over where a person looks, plain lines where
// they were asked for.
#ifndef HEADWISE_CLI_TRAIN_PROGRESS_H_
#define HEADWISE_CLI_TRAIN_PROGRESS_H_

#include <chrono>
#include <ostream>
#include <string>

#include "cli/run_command.h"
#include "headwise/models/training.h"

namespace headwise::cli {

class TrainProgress {
 public:
  // label: which run of several ("heads 4, seed 0"), or empty. log_every: steps between plain lines; 0: none.
  TrainProgress(const CommandContext& context, const std::string& label, Index log_every);
  ~TrainProgress() { clear(); }
  TrainProgress(const TrainProgress&) = delete;
  TrainProgress& operator=(const TrainProgress&) = delete;

  // After a step that took so long.
  void step(const Training& training, double seconds);
  void evaluated(const Training& training);
  // Takes the line away, for something else to be written.
  void clear();

  double seconds() const { return seconds_; }
  Index steps() const { return steps_; }
  double tokens_per_second(const Training& training) const;

 private:
  std::string numbers(const Training& training) const;

  std::ostream* out_;
  Terminal terminal_;
  std::string label_;
  Index log_every_;
  double seconds_ = 0, loss_ = 0;  // of steps alone; the loss as a running mean
  Index steps_ = 0;                // of this process
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_{};
};

// "1:05", "2:07:30".
std::string clock_text(double seconds);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_TRAIN_PROGRESS_H_
