// SPDX-License-Identifier: Apache-2.0
// The sizes of a GPT-type decoder and every check of them.
#ifndef HEADWISE_MODELS_DECODER_CONFIG_H_
#define HEADWISE_MODELS_DECODER_CONFIG_H_

#include <string>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct DecoderConfig {
  Index layers = 0;
  Index hidden = 0;
  Index heads = 0;
  Index vocab = 0;
  Index positions = 0;              // longest sequence
  Index intermediate = 0;           // width of the feed-forward part; 0: 4 * hidden
  bool bias = true;                 // of every projection and layer norm; the output projection never has one
  bool tied = true;                 // the output projection is the token embedding
  std::string activation = "gelu";  // or "gelu_tanh"
  double dropout = 0;               // of embeddings, attention weights and residual branches, in training
  double layer_norm_eps = 1e-5;

  bool operator==(const DecoderConfig&) const = default;
  Index feed_forward() const { return intermediate == 0 ? 4 * hidden : intermediate; }
};

// Throws ShapeError or ArgumentError "Decoder: ...".
void check_config(const DecoderConfig& config);

}  // namespace headwise

#endif  // HEADWISE_MODELS_DECODER_CONFIG_H_
