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
  Index stored = config.layers;
  while (file.contains("transformer.h." + std::to_string(stored) + ".attn.c_attn.weight")) ++stored;
  if (stored == config.layers) return;
  throw FileError(file.path(), "stores " + std::to_string(stored) + " attention layers, but its config counts " +
                                   std::to_string(config.layers) + " (n_layer)");
}

bool is_byte_decoder(const std::string& directory) {
  try {
    const ConfigFile json(directory + "/config.json");
    const nlohmann::json *type = json.find("model_type"), *tokenizer = json.find("tokenizer");
    return type != nullptr && *type == kDecoderModelType && tokenizer != nullptr && *tokenizer == kByteTokenizer;
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
