// SPDX-License-Identifier: Apache-2.0
// What a decoder's forward leaves for its backward. Held by the caller; a second forward into the same object reuses
// its memory where the sizes agree.
#ifndef HEADWISE_MODELS_DECODER_ACTIVATIONS_H_
#define HEADWISE_MODELS_DECODER_ACTIVATIONS_H_

#include <cstdint>
#include <vector>

#include "headwise/layers/activations.h"
#include "headwise/models/layer_norm.h"

namespace headwise {

// Dropout of one call, at work only in training: a pure function of (seed, call, place, element).
struct DecoderDropout {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t call = 0;  // count the training forwards here
};

// tokens = batch * seq throughout.
template <class T>
struct DecoderBlockActivations {
  Tensor<T, 3> x;             // (batch, seq, hidden), what came in
  LayerNormSaved norm_1;      // of x
  Activations<T> attention;   // its x is the first norm's output
  Tensor<T, 3> middle;        // (batch, seq, hidden), x + attention
  LayerNormSaved norm_2;      // of middle
  Tensor<T, 2> normed;        // (tokens, hidden), the second norm's output
  Tensor<T, 2> wide, active;  // (tokens, intermediate), before and after the GELU
};

template <class T>
struct DecoderActivations {
  DecoderDropout dropout;
  Tensor<std::int64_t, 2> ids;                     // (batch, seq)
  std::vector<DecoderBlockActivations<T>> blocks;  // one a layer
  Tensor<T, 3> last;                               // (batch, seq, hidden), what the last block gave
  LayerNormSaved last_norm;
  Tensor<T, 2> normed;    // (tokens, hidden), what the output projection takes
  bool complete = false;  // a forward into this object has come to its end

  // Working memory.
  Tensor<T, 3> normed_x;     // (batch, seq, hidden), a first norm's output
  Tensor<T, 3> grad;         // (batch, seq, hidden), of the residual stream
  Tensor<T, 3> grad_branch;  // (batch, seq, hidden), of what is added to it
  Tensor<T, 3> grad_normed;  // (batch, seq, hidden), of a norm's output
  Tensor<T, 2> grad_wide;    // (tokens, intermediate)
  Tensor<T, 2> logits;       // a piece of them

  explicit operator bool() const { return complete; }
};

}  // namespace headwise

#endif  // HEADWISE_MODELS_DECODER_ACTIVATIONS_H_
