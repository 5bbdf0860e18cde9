// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/training_json.h"

#include <charconv>
#include <cstdint>
#include <string>

#include "headwise/io/file_error.h"

namespace headwise {
namespace {

std::uint64_t seed_of(const ConfigFile& json) {
  const std::string digits = json.text("seed");
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  json.fail("\"seed\" must be the digits of a number below 2^64, got " + quote_name(digits));
}

}  // namespace

nlohmann::ordered_json training_json(const TrainingConfig& config) {
  const LearningRate& rate = config.learning_rate;
  return {{"batch", config.batch},
          {"steps", rate.steps},
          {"learning_rate", rate.highest},
          {"last_learning_rate", rate.last},
          {"warm_up", rate.warm_up},
          {"beta1", config.adamw.beta1},
          {"beta2", config.adamw.beta2},
          {"eps", config.adamw.eps},
          {"weight_decay", config.adamw.weight_decay},
          {"clip", config.clip},
          {"evaluate_every", config.evaluate_every},
          {"seed", std::to_string(config.seed)}};
}

TrainingConfig training_config_of(const ConfigFile& json) {
  TrainingConfig config;
  config.batch = json.size("batch");
  config.learning_rate.steps = json.size("steps");
  config.learning_rate.highest = json.number("learning_rate");
  config.learning_rate.last = json.number("last_learning_rate");
  const auto count_from_0 = [&](const char* key) { return json.number(key) == 0 ? 0 : json.size(key); };
  config.learning_rate.warm_up = count_from_0("warm_up");
  config.evaluate_every = count_from_0("evaluate_every");
  config.adamw.beta1 = json.number("beta1");
  config.adamw.beta2 = json.number("beta2");
  config.adamw.eps = json.number("eps");
  config.adamw.weight_decay = json.number("weight_decay");
  config.clip = json.number("clip");
  config.seed = seed_of(json);
  return config;
}

}  // namespace headwise
