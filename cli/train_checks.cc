// SPDX-License-Identifier: Apache-2.0
#include "cli/train_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "cli/usage.h"
#include "headwise/layers/attention_config.h"
#include "headwise/tensor/shape_check.h"

namespace headwise::cli {
namespace {

// The library's checks, which take the name of what they check; the command's own name stands in front already.
template <class Check>
void as_usage(const Check& check) {
  constexpr std::string_view kWho = "train: ";
  try {
    check("train");
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    throw UsageError(text.starts_with(kWho) ? text.substr(kWho.size()) : text);
  }
}

void require(bool good, const char* option, const std::string& rule, double value) {
  if (!good) throw UsageError(fmt::format("{} must be {}, got {}", option, rule, value));
}

void check_sizes(const TrainOptions& options) {
  const DecoderConfig& decoder = options.decoder;
  const TrainingConfig& training = options.training;
  const std::pair<const char*, Index> sizes[] = {
      {"--width", decoder.hidden},      {"--depth", decoder.layers},
      {"--context", decoder.positions}, {"--steps", training.learning_rate.steps},
      {"--batch", training.batch},      {"--seeds", options.seeds}};
  for (const auto& [name, value] : sizes) {
    as_usage([name = name, value = value](const char* who) { check_width(who, name, value); });
  }
  const std::pair<const char*, Index> counts[] = {{"--warm-up", training.learning_rate.warm_up},
                                                  {"--eval-every", training.evaluate_every},
                                                  {"--save-every", options.save_every},
                                                  {"--log-every", options.log_every}};
  for (const auto& [name, value] : counts) {
    if (value < 0) throw UsageError(fmt::format("{} must be at least 0, got {}", name, value));
  }
  if (training.learning_rate.warm_up >= training.learning_rate.steps) {
    throw UsageError(fmt::format("--warm-up must be below --steps, which is {}, got {}", training.learning_rate.steps,
                                 training.learning_rate.warm_up));
  }
}

void check_heads(const TrainOptions& options) {
  for (const Index heads : options.heads) {
    as_usage([&](const char* who) {
      check_width(who, "--heads", heads);
      check_divisible(who, "--width", options.decoder.hidden, "--heads", heads);
    });
  }
  if (std::set<Index>(options.heads.begin(), options.heads.end()).size() != options.heads.size()) {
    throw UsageError("--heads names a count twice");
  }
}

void check_rates(const TrainOptions& options) {
  const TrainingConfig& training = options.training;
  const LearningRate& rate = training.learning_rate;
  const auto is_share = [](double value) { return value >= 0 && value < 1; };
  require(is_share(options.decoder.dropout), "--dropout", "in [0, 1)", options.decoder.dropout);
  require(rate.highest > 0, "--learning-rate", "above 0", rate.highest);
  require(rate.last >= 0 && rate.last <= rate.highest, "--last-learning-rate",
          fmt::format("from 0 to --learning-rate, which is {}", rate.highest), rate.last);
  require(is_share(training.adamw.beta1), "--beta1", "in [0, 1)", training.adamw.beta1);
  require(is_share(training.adamw.beta2), "--beta2", "in [0, 1)", training.adamw.beta2);
  require(training.adamw.weight_decay >= 0, "--weight-decay", "at least 0", training.adamw.weight_decay);
  require(training.clip >= 0, "--clip", "at least 0", training.clip);
}

}  // namespace

void check_train_options(const TrainOptions& options) {
  check_sizes(options);
  check_heads(options);
  check_rates(options);
}

void check_text_length(const std::string& path, const std::string& bytes, Index context) {
  if (bytes.empty()) throw UsageError(path + " is empty: there is nothing to learn");
  const Index size = static_cast<Index>(bytes.size()), split = size * 9 / 10;
  if (split > context && size - split > context) return;
  throw UsageError(fmt::format(
      "{} has {} bytes; nine tenths of it and one tenth must each be longer than --context, which is {}: at least {} "
      "bytes",
      path, size, context, 10 * (context + 1)));
}

}  // namespace headwise::cli
