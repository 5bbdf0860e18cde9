// SPDX-License-Identifier: Apache-2.0
// What `headwise attend` was asked for.
#ifndef HEADWISE_CLI_ATTEND_OPTIONS_H_
#define HEADWISE_CLI_ATTEND_OPTIONS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/lens/attention_trace.h"
#include "headwise/models/encoder_config.h"

namespace headwise::cli {

struct AttendOptions {
  std::string model;
  std::vector<TokenSequence> sentences;
  std::optional<Index> layer, head;
  std::string save;
  std::string colour = "auto";
  bool json = false;
  bool help = false;
};

// Throws UsageError. Nothing is read from disk.
AttendOptions parse_attend(std::span<const std::string> arguments);

// What only the model's sizes tell: layer, head, ids, lengths. Throws UsageError.
void check_against_model(const AttendOptions& options, const EncoderConfig& config);

const char* attend_help();

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_ATTEND_OPTIONS_H_
