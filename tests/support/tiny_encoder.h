// SPDX-License-Identifier: Apache-2.0
// A BERT of two layers with two heads of four, its numbers drawn from a fixed seed, and the folder it is saved as.
#ifndef HEADWISE_TESTS_SUPPORT_TINY_ENCODER_H_
#define HEADWISE_TESTS_SUPPORT_TINY_ENCODER_H_

#include <string>

#include "headwise/io/safetensors.h"
#include "headwise/models/encoder.h"
#include "headwise/runtime/random.h"
#include "tests/support/temporary_folder.h"

namespace headwise {

inline std::string tiny_encoder_json() {
  return R"({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8,
 "intermediate_size": 12, "vocab_size": 20, "max_position_embeddings": 16, "type_vocab_size": 2,
 "layer_norm_eps": 1e-12, "hidden_act": "gelu", "position_embedding_type": "absolute"})";
}

inline Encoder<float> tiny_encoder() {
  Encoder<float> encoder({.layers = 2, .hidden = 8, .heads = 2, .intermediate = 12, .vocab = 20, .positions = 16});
  TorchGenerator generator(11);
  for (const Parameter<float>& parameter : encoder.parameters()) generator.fill_normal(parameter.values(), 0.1, 0.7);
  return encoder;
}

inline void write_tiny_model(const TemporaryFolder& folder) {
  folder.write("config.json", tiny_encoder_json());
  Encoder<float> encoder = tiny_encoder();
  write_safetensors(folder.file("model.safetensors"), encoder.state());
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_TINY_ENCODER_H_
