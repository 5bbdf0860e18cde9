// SPDX-License-Identifier: Apache-2.0
// What `headwise attend` was asked for.
#ifndef HEADWISE_CLI_ATTEND_OPTIONS_H_
#define HEADWISE_CLI_ATTEND_OPTIONS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/lens/ablation.h"
#include "headwise/lens/attention_trace.h"

namespace headwise::cli {

// What an encoder and a decoder have in common.
struct ModelSizes {
  Index layers = 0, heads = 0, hidden = 0, vocab = 0, positions = 0;
};

struct AttendOptions {
  std::string model;
  std::vector<TokenSequence> sentences;  // by --ids
  std::vector<std::string> texts;        // by --text, or as words
  std::optional<Index> layer, head;
  std::vector<HeadScale> scales;  // heads that are off or scaled
  bool rank_heads = false;        // each head off in turn
  std::string save;
  std::string colour = "auto";
  bool json = false;
  bool help = false;
};

// Throws UsageError. Nothing is read from disk.
AttendOptions parse_attend(std::span<const std::string> arguments);

// Throws UsageError when there is a text: a model that reads words needs a tokenizer.
void refuse_texts(const AttendOptions& options);

// What only the model's sizes tell: layer, head, ids, lengths. Throws UsageError.
void check_against_model(const AttendOptions& options, const ModelSizes& model);

const char* attend_help();

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_ATTEND_OPTIONS_H_
