// SPDX-License-Identifier: Apache-2.0
// A decoder's sizes and settings as JSON, under nanoGPT's keys. Not installed: it shows the JSON library.
#ifndef HEADWISE_CHECKPOINTS_DECODER_JSON_H_
#define HEADWISE_CHECKPOINTS_DECODER_JSON_H_

#include <nlohmann/json.hpp>

#include "headwise/checkpoints/config_file.h"
#include "headwise/io/safetensors.h"
#include "headwise/models/byte_text.h"
#include "headwise/models/decoder_config.h"

namespace headwise {

inline constexpr const char* kDecoderModelType = "nanogpt";
inline constexpr const char* kByteTokenizer = "bytes";

nlohmann::ordered_json decoder_json(const DecoderConfig& config, const ByteVocabulary& vocabulary);

// Throw FileError naming the key.
DecoderConfig decoder_config_of(const ConfigFile& json);
ByteVocabulary vocabulary_of(const ConfigFile& json);

// Throws FileError unless the file's weights have the sizes that the config says. Called before a model is built, so
// that a lying config costs no memory.
void check_decoder_tensors(const SafetensorsFile& file, const DecoderConfig& config);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_DECODER_JSON_H_
