// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/decoder_json.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "headwise/io/file_error.h"

namespace headwise {

nlohmann::ordered_json decoder_json(const DecoderConfig& config, const ByteVocabulary& vocabulary) {
  return {{"model_type", kDecoderModelType},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_embd", config.hidden},
          {"n_inner", config.feed_forward()},
          {"block_size", config.positions},
          {"vocab_size", config.vocab},
          {"bias", config.bias},
          {"tie_word_embeddings", config.tied},
          {"activation_function", config.activation},
          {"layer_norm_epsilon", config.layer_norm_eps},
          {"dropout", config.dropout},
          {"tokenizer", kByteTokenizer},
          {"bytes", vocabulary.bytes()}};
}

DecoderConfig decoder_config_of(const ConfigFile& json) {
  if (json.text("model_type") != kDecoderModelType) {
    json.fail("\"model_type\" is " + quote_name(json.text("model_type")) + "; a decoder of headwise train has '" +
              kDecoderModelType + "'");
  }
  DecoderConfig config;
  config.layers = json.size("n_layer");
  config.heads = json.size("n_head");
  config.hidden = json.size("n_embd");
  config.intermediate = json.size("n_inner");
  config.positions = json.size("block_size");
  config.vocab = json.size("vocab_size");
  config.bias = json.flag("bias");
  config.tied = json.flag("tie_word_embeddings");
  config.activation = json.text("activation_function");
  config.layer_norm_eps = json.number("layer_norm_epsilon");
  config.dropout = json.number("dropout");
  try {
    check_config(config);
  } catch (const std::invalid_argument& error) {
    json.fail(error.what());
  }
  return config;
}

ByteVocabulary vocabulary_of(const ConfigFile& json) {
  if (json.text("tokenizer") != kByteTokenizer) {
    json.fail("\"tokenizer\" is " + quote_name(json.text("tokenizer")) + "; headwise reads '" + kByteTokenizer + "'");
  }
  const nlohmann::json* bytes = json.find("bytes");
  const auto is_byte = [](const nlohmann::json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() < 256;
  };
  if (bytes == nullptr || !bytes->is_array() || !std::all_of(bytes->begin(), bytes->end(), is_byte)) {
    json.fail("\"bytes\" must be an array of whole numbers from 0 to 255");
  }
  if (static_cast<Index>(bytes->size()) != json.size("vocab_size")) {
    json.fail("\"bytes\" must hold vocab_size=" + std::to_string(json.size("vocab_size")) + " numbers, got " +
              std::to_string(bytes->size()));
  }
  try {
    return ByteVocabulary(bytes->get<std::vector<std::uint8_t>>());
  } catch (const std::invalid_argument& error) {
    json.fail(error.what());
  }
}

}  // namespace headwise
