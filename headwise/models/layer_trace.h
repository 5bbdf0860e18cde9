// SPDX-License-Identifier: Apache-2.0
// What a model hands out of one of its layers.
#ifndef HEADWISE_MODELS_LAYER_TRACE_H_
#define HEADWISE_MODELS_LAYER_TRACE_H_

#include "headwise/layers/activations.h"

namespace headwise {

// Each view that is given is overwritten; an encoder's rows of padding are 0.
template <class T>
struct LayerTrace {
  Index layer = 0;
  LayerOutputs<T> attention{};  // queries, keys, weights (batch, heads, seq, seq), statistics, ...
  TensorView<T, 3> hidden{};    // (batch, seq, hidden), the layer's output
};

}  // namespace headwise

#endif  // HEADWISE_MODELS_LAYER_TRACE_H_
