// SPDX-License-Identifier: Apache-2.0
// A training run in one safetensors file: the weights, both moments of AdamW, the learning curve, and as metadata the
// settings, the seed and the text's fingerprint. A run that is taken up from it goes on with the bits that it would
// have had.
#ifndef HEADWISE_CHECKPOINTS_TRAINING_FILE_H_
#define HEADWISE_CHECKPOINTS_TRAINING_FILE_H_

#include <memory>
#include <string>

#include "headwise/checkpoints/training_text.h"
#include "headwise/models/training.h"

namespace headwise {

// The file appears whole or not at all. Throws as OutputFile does, and ArgumentError for a text path that is no UTF-8.
void save_training(const std::string& path, Training& training, const TrainingText& text);

// Where the text of a saved run came from. Throws FileNotFound or FileError.
std::string training_text_path(const std::string& path);

// Throws FileNotFound, FileError naming what does not fit, or ArgumentError when the text is another one.
std::unique_ptr<Training> load_training(const std::string& path, const TrainingText& text);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_TRAINING_FILE_H_
