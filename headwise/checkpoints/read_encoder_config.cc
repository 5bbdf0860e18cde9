// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "headwise/checkpoints/config_file.h"
#include "headwise/checkpoints/encoder_rules.h"
#include "headwise/checkpoints/load_encoder.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise {

EncoderConfig read_encoder_config(const std::string& path) {
  const ConfigFile json(path);
  const std::string model_type = json.text("model_type");
  std::string known;
  for (const EncoderFamily& family : encoder_families()) {
    if (!known.empty()) known += ", ";
    known += family.model_type;
  }
  bool found = false;
  for (const EncoderFamily& family : encoder_families()) found |= family.model_type == model_type;
  if (!found) json.fail("\"model_type\" is " + quote_name(model_type) + "; headwise loads: " + known);
  json.require_if_given("position_embedding_type", "absolute");
  json.require_if_given("is_decoder", false);
  json.require_if_given("add_cross_attention", false);

  EncoderConfig config;
  config.layers = json.size("num_hidden_layers");
  config.heads = json.size("num_attention_heads");
  config.hidden = json.size(config_key(EncoderSize::kHidden));
  config.intermediate = json.size(config_key(EncoderSize::kIntermediate));
  config.vocab = json.size(config_key(EncoderSize::kVocab));
  config.positions = json.size(config_key(EncoderSize::kPositions));
  config.type_vocab = json.size(config_key(EncoderSize::kTypeVocab));
  config.layer_norm_eps = json.number("layer_norm_eps");
  config.activation = json.text("hidden_act");
  try {
    check_config(config);
  } catch (const std::invalid_argument& error) {
    json.fail(error.what());
  }
  return config;
}

}  // namespace headwise
