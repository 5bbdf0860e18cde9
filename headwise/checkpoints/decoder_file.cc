// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/decoder_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "headwise/checkpoints/config_file.h"
#include "headwise/checkpoints/decoder_json.h"
#include "headwise/io/file_error.h"
#include "headwise/io/output_file.h"
#include "headwise/io/safetensors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

constexpr const char* kModelType = "nanogpt";
constexpr const char* kTokenizer = "bytes";

}  // namespace

nlohmann::ordered_json decoder_json(const DecoderConfig& config, const ByteVocabulary& vocabulary) {
  return {{"model_type", kModelType},
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
          {"tokenizer", kTokenizer},
          {"bytes", vocabulary.bytes()}};
}

DecoderConfig decoder_config_of(const ConfigFile& json) {
  if (json.text("model_type") != kModelType) {
    json.fail("\"model_type\" is " + quote_name(json.text("model_type")) + "; a decoder of headwise train has '" +
              kModelType + "'");
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
  if (json.text("tokenizer") != kTokenizer) {
    json.fail("\"tokenizer\" is " + quote_name(json.text("tokenizer")) + "; headwise reads '" + kTokenizer + "'");
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

void check_decoder_tensors(const SafetensorsFile& file, const DecoderConfig& config) {
  const auto check = [&](const std::string& name, const std::vector<Index>& wanted, const char* keys) {
    const NamedTensor tensor = file.tensor(name);
    if (tensor.shape == wanted && tensor.dtype == DType::kFloat32) return;
    throw FileError(file.path(), "tensor " + quote_name(name) + " must be float32 " + format_shape(wanted) +
                                     " by its config (" + keys + "), got " + std::string(dtype_name(tensor.dtype)) +
                                     " " + format_shape(tensor.shape));
  };
  check("transformer.wte.weight", {config.vocab, config.hidden}, "vocab_size, n_embd");
  check("transformer.wpe.weight", {config.positions, config.hidden}, "block_size, n_embd");
  for (Index layer = 0; layer < config.layers; ++layer) {
    const std::string name = "transformer.h." + std::to_string(layer) + ".";
    check(name + "attn.c_attn.weight", {3 * config.hidden, config.hidden}, "3 * n_embd, n_embd");
    check(name + "mlp.c_fc.weight", {config.feed_forward(), config.hidden}, "n_inner, n_embd");
  }
}

bool is_byte_decoder(const std::string& directory) {
  try {
    const ConfigFile json(directory + "/config.json");
    const nlohmann::json *type = json.find("model_type"), *tokenizer = json.find("tokenizer");
    return type != nullptr && *type == kModelType && tokenizer != nullptr && *tokenizer == kTokenizer;
  } catch (const FileError&) {
    return false;
  }
}

void save_byte_decoder(const std::string& directory, Decoder<float>& decoder, const ByteVocabulary& vocabulary) {
  OutputFile config(directory + "/config.json");
  config.write(decoder_json(decoder.config(), vocabulary).dump(2) + "\n");
  config.commit();
  write_safetensors(directory + "/model.safetensors", decoder.state(), {{"format", "pt"}});
}

ByteDecoderConfig read_byte_decoder_config(const std::string& directory) {
  const ConfigFile json(directory + "/config.json");
  const DecoderConfig config = decoder_config_of(json);
  return {config, vocabulary_of(json)};
}

ByteDecoder load_byte_decoder(const std::string& directory) {
  ByteDecoderConfig config = read_byte_decoder_config(directory);
  const SafetensorsFile file(directory + "/model.safetensors");
  check_decoder_tensors(file, config.decoder);
  Decoder<float> decoder(config.decoder);
  try {
    decoder.load(file.tensors());
  } catch (const std::invalid_argument& error) {
    throw FileError(file.path(), error.what());
  }
  return {std::move(decoder), std::move(config.vocabulary)};
}

}  // namespace headwise
