// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "headwise/layers/attention_config.h"
#include "headwise/models/training.h"
#include "headwise/tensor/errors.h"

namespace headwise {

void check_config(const TrainingConfig& config) {
  const auto check = [](const char* name, double value, bool good, const char* rule) {
    if (!good) throw ArgumentError(fmt::format("training: {} must be {}, got {}", name, rule, value));
  };
  const LearningRate& rate = config.learning_rate;
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  check_width("training", "batch", config.batch);
  check_width("training", "steps", rate.steps);
  check("learning_rate", rate.highest, positive(rate.highest), "a finite number > 0");
  check("last_learning_rate", rate.last, rate.last >= 0 && rate.last <= rate.highest, "in 0..learning_rate");
  check("warm_up", static_cast<double>(rate.warm_up), rate.warm_up >= 0 && rate.warm_up < rate.steps,
        "in 0..steps - 1");
  const auto every = static_cast<double>(config.evaluate_every);
  check("evaluate_every", every, every >= 0, ">= 0");
  check("clip", config.clip, config.clip == 0 || positive(config.clip), "a finite number >= 0");
}

}  // namespace headwise
