// SPDX-License-Identifier: Apache-2.0
// A trained encoder from the folder that Hugging Face's save_pretrained writes.
#ifndef HEADWISE_CHECKPOINTS_LOAD_ENCODER_H_
#define HEADWISE_CHECKPOINTS_LOAD_ENCODER_H_

#include <string>

#include "headwise/models/encoder.h"

namespace headwise {

// Reads config.json and model.safetensors (float32, float16 or bfloat16, widened exactly). Everything is checked before
// the model is built, so a lying config costs no memory. Throws FileNotFound, or FileError naming the file and the key,
// or the tensor with both shapes, or the names that come closest to a missing one.
Encoder<float> load_encoder(const std::string& directory);

// The sizes alone. Throws the same.
EncoderConfig read_encoder_config(const std::string& path);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_LOAD_ENCODER_H_
