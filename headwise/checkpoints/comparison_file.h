// SPDX-License-Identifier: Apache-2.0
// What a comparison of several training runs was begun as, in one JSON file, so that it can be taken up again: sizes
// and settings that all runs share, the head counts and seeds, and which text.
#ifndef HEADWISE_CHECKPOINTS_COMPARISON_FILE_H_
#define HEADWISE_CHECKPOINTS_COMPARISON_FILE_H_

#include <string>
#include <vector>

#include "headwise/checkpoints/training_text.h"
#include "headwise/models/training.h"

namespace headwise {

struct TrainingComparison {
  DecoderConfig decoder;     // of every run, heads and vocab apart
  TrainingConfig training;   // of every run; its seed is the first one
  std::vector<Index> heads;  // one run for each, and for each of the seeds
  Index seeds = 1;           // training.seed, training.seed + 1, ...
  std::string text_path, text_fingerprint;
};

// Takes path and fingerprint from `text`. The file appears whole or not at all. Throws as OutputFile does, and
// ArgumentError for a text path that is no UTF-8.
void save_comparison(const std::string& path, const TrainingComparison& comparison, const TrainingText& text);

// Throws FileNotFound, or FileError naming the key.
TrainingComparison load_comparison(const std::string& path);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_COMPARISON_FILE_H_
