// SPDX-License-Identifier: Apache-2.0
// The sizes of a BERT-type encoder and every check of them.
#ifndef HEADWISE_MODELS_ENCODER_CONFIG_H_
#define HEADWISE_MODELS_ENCODER_CONFIG_H_

#include <string>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct EncoderConfig {
  Index layers = 0;
  Index hidden = 0;
  Index heads = 0;
  Index intermediate = 0;
  Index vocab = 0;
  Index positions = 0;  // longest sequence
  Index type_vocab = 2;
  double layer_norm_eps = 1e-12;
  std::string activation = "gelu";  // the exact one, by erf
};

// Throws ShapeError or ArgumentError "Encoder: ...".
void check_config(const EncoderConfig& config);

}  // namespace headwise

#endif  // HEADWISE_MODELS_ENCODER_CONFIG_H_
