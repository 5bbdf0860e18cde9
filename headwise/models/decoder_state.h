// SPDX-License-Identifier: Apache-2.0
// What a decoder keeps of the tokens so far, so that the next one costs one token's work.
#ifndef HEADWISE_MODELS_DECODER_STATE_H_
#define HEADWISE_MODELS_DECODER_STATE_H_

#include <vector>

#include "headwise/layers/kv_cache.h"

namespace headwise {

template <class T>
struct DecoderState {
  std::vector<KvCache<T>> layers;

  Index batch() const { return layers.front().shape().batch; }
  // Tokens held; the same in every batch entry.
  Index length() const {
    const auto lengths = layers.front().lengths();
    return lengths.empty() ? 0 : lengths.front();
  }
  // Forgets the tokens from `length` on.
  void truncate(Index length) {
    for (KvCache<T>& layer : layers) layer.truncate(length);
  }
};

}  // namespace headwise

#endif  // HEADWISE_MODELS_DECODER_STATE_H_
