// SPDX-License-Identifier: Apache-2.0
// Which dropout stream each place of a decoder draws from. Not installed.
#ifndef HEADWISE_MODELS_DECODER_SITES_H_
#define HEADWISE_MODELS_DECODER_SITES_H_

#include "headwise/models/decoder_activations.h"
#include "headwise/models/dropout.h"
#include "headwise/models/random_streams.h"

namespace headwise {

inline constexpr std::uint32_t kEmbeddingSite = 0;
inline std::uint32_t attention_site(Index layer) { return 1 + 2 * static_cast<std::uint32_t>(layer); }
inline std::uint32_t feed_forward_site(Index layer) { return 2 + 2 * static_cast<std::uint32_t>(layer); }

inline ElementDropout branch_dropout(double probability, const DecoderDropout& call, std::uint32_t site) {
  return {call.training ? probability : 0, call.seed, call.call, site};
}

inline LayerDropout attention_dropout(const DecoderDropout& call, Index layer) {
  const auto index = static_cast<std::uint64_t>(layer);
  return {call.training, wide_word(draw_from(RandomStream::kAttention, call.seed, index, 0)), call.call};
}

}  // namespace headwise

#endif  // HEADWISE_MODELS_DECODER_SITES_H_
