// SPDX-License-Identifier: Apache-2.0
// Which names and shapes in a checkpoint mean which parameter of an encoder: tables, one per model family. Not
// installed.
#ifndef HEADWISE_CHECKPOINTS_ENCODER_RULES_H_
#define HEADWISE_CHECKPOINTS_ENCODER_RULES_H_

#include <span>
#include <string_view>

#include "headwise/models/encoder_config.h"

namespace headwise {

// An axis of a tensor, by its meaning.
enum class EncoderSize { kNone, kVocab, kPositions, kTypeVocab, kHidden, kIntermediate };

// "{n}" in a name stands for the number of a layer: such a rule holds for each of them.
struct EncoderTensorRule {
  std::string_view name;  // in Encoder::parameters() and in the file
  EncoderSize rows = EncoderSize::kNone;
  EncoderSize columns = EncoderSize::kNone;  // kNone: the tensor has one axis
};

// An ending that some files write differently.
struct EndingRule {
  std::string_view ours, in_file;
};

struct EncoderFamily {
  std::string_view model_type;                 // in config.json
  std::span<const std::string_view> prefixes;  // in front of every name of the file, the usual one first
  std::span<const EncoderTensorRule> tensors;
  std::span<const EndingRule> endings;
  // What a file may hold beside the encoder; a name under one of `own` that no rule knows is an error.
  std::span<const std::string_view> own;
  std::span<const std::string_view> ignored;
};

std::span<const EncoderFamily> encoder_families();

Index size_of(EncoderSize size, const EncoderConfig& config);
// "vocab_size": where config.json says it.
std::string_view config_key(EncoderSize size);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_ENCODER_RULES_H_
