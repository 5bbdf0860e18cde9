// SPDX-License-Identifier: Apache-2.0
// The settings of a training run as JSON. Not installed: it shows the JSON library.
#ifndef HEADWISE_CHECKPOINTS_TRAINING_JSON_H_
#define HEADWISE_CHECKPOINTS_TRAINING_JSON_H_

#include <nlohmann/json.hpp>

#include "headwise/checkpoints/config_file.h"
#include "headwise/models/training.h"

namespace headwise {

nlohmann::ordered_json training_json(const TrainingConfig& config);

// Throws FileError naming the key.
TrainingConfig training_config_of(const ConfigFile& json);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_TRAINING_JSON_H_
