// SPDX-License-Identifier: Apache-2.0
// A byte-level decoder as a folder: config.json says its sizes, settings and vocabulary, model.safetensors holds the
// weights under nanoGPT's names.
#ifndef HEADWISE_CHECKPOINTS_DECODER_FILE_H_
#define HEADWISE_CHECKPOINTS_DECODER_FILE_H_

#include <string>

#include "headwise/models/byte_text.h"
#include "headwise/models/decoder.h"

namespace headwise {

// What config.json of such a folder says.
struct ByteDecoderConfig {
  DecoderConfig decoder;
  ByteVocabulary vocabulary;
};

struct ByteDecoder {
  Decoder<float> decoder;
  ByteVocabulary vocabulary;
};

// Whether the folder's config.json is that of a byte-level decoder. False when there is none, or it cannot be read.
bool is_byte_decoder(const std::string& directory);

// Writes both files, each whole or not at all; the folder must be there. Throws as OutputFile does.
void save_byte_decoder(const std::string& directory, Decoder<float>& decoder, const ByteVocabulary& vocabulary);

// Both throw FileNotFound, or FileError naming the file and the key or tensor.
ByteDecoderConfig read_byte_decoder_config(const std::string& directory);
ByteDecoder load_byte_decoder(const std::string& directory);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_DECODER_FILE_H_
