// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/encoder_rules.h"

namespace headwise {
namespace {

using enum EncoderSize;

constexpr EncoderTensorRule kBertTensors[] = {
    {"embeddings.word_embeddings.weight", kVocab, kHidden},
    {"embeddings.position_embeddings.weight", kPositions, kHidden},
    {"embeddings.token_type_embeddings.weight", kTypeVocab, kHidden},
    {"embeddings.LayerNorm.weight", kHidden},
    {"embeddings.LayerNorm.bias", kHidden},
    {"encoder.layer.{n}.attention.self.query.weight", kHidden, kHidden},
    {"encoder.layer.{n}.attention.self.query.bias", kHidden},
    {"encoder.layer.{n}.attention.self.key.weight", kHidden, kHidden},
    {"encoder.layer.{n}.attention.self.key.bias", kHidden},
    {"encoder.layer.{n}.attention.self.value.weight", kHidden, kHidden},
    {"encoder.layer.{n}.attention.self.value.bias", kHidden},
    {"encoder.layer.{n}.attention.output.dense.weight", kHidden, kHidden},
    {"encoder.layer.{n}.attention.output.dense.bias", kHidden},
    {"encoder.layer.{n}.attention.output.LayerNorm.weight", kHidden},
    {"encoder.layer.{n}.attention.output.LayerNorm.bias", kHidden},
    {"encoder.layer.{n}.intermediate.dense.weight", kIntermediate, kHidden},
    {"encoder.layer.{n}.intermediate.dense.bias", kIntermediate},
    {"encoder.layer.{n}.output.dense.weight", kHidden, kIntermediate},
    {"encoder.layer.{n}.output.dense.bias", kHidden},
    {"encoder.layer.{n}.output.LayerNorm.weight", kHidden},
    {"encoder.layer.{n}.output.LayerNorm.bias", kHidden},
};

constexpr std::string_view kBertPrefixes[] = {"", "bert."};
// Files converted from TensorFlow before 2019 call the layer norm's parameters so.
constexpr EndingRule kBertEndings[] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
constexpr std::string_view kBertOwn[] = {"embeddings.", "encoder."};
constexpr std::string_view kBertIgnored[] = {"embeddings.position_ids"};

constexpr EncoderFamily kFamilies[] = {
    {"bert", kBertPrefixes, kBertTensors, kBertEndings, kBertOwn, kBertIgnored},
};

}  // namespace

std::span<const EncoderFamily> encoder_families() { return kFamilies; }

Index size_of(EncoderSize size, const EncoderConfig& config) {
  switch (size) {
    case kVocab:
      return config.vocab;
    case kPositions:
      return config.positions;
    case kTypeVocab:
      return config.type_vocab;
    case kHidden:
      return config.hidden;
    case kIntermediate:
      return config.intermediate;
    case kNone:
      break;
  }
  return 0;
}

std::string_view config_key(EncoderSize size) {
  switch (size) {
    case kVocab:
      return "vocab_size";
    case kPositions:
      return "max_position_embeddings";
    case kTypeVocab:
      return "type_vocab_size";
    case kHidden:
      return "hidden_size";
    case kIntermediate:
      return "intermediate_size";
    case kNone:
      break;
  }
  return "";
}

}  // namespace headwise
