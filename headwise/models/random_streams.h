// SPDX-License-Identifier: Apache-2.0
// Independent Philox streams under one seed: what is drawn for one purpose never meets what is drawn for another. Each
// draw is a function of its coordinates, so that nothing has to be counted or stored. Not installed.
#ifndef HEADWISE_MODELS_RANDOM_STREAMS_H_
#define HEADWISE_MODELS_RANDOM_STREAMS_H_

#include <array>
#include <cstdint>

#include "headwise/runtime/random.h"

namespace headwise {

// The last counter word.
enum class RandomStream : std::uint32_t {
  kWeights = 1,    // coordinates: pair of values, parameter
  kBatches = 2,    // step, row
  kAttention = 3,  // layer: the seed of its dropout
  kDropout = 4,    // call, site: the key of its elements
  kSampling = 5,   // token
};

inline std::array<std::uint32_t, 4> draw_from(RandomStream stream, std::uint64_t seed, std::uint64_t index,
                                              std::uint32_t which) {
  return philox4x32_10({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), which,
                        static_cast<std::uint32_t>(stream)},
                       {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

// The first two words as one.
inline std::uint64_t wide_word(const std::array<std::uint32_t, 4>& words) {
  return static_cast<std::uint64_t>(words[1]) << 32 | words[0];
}

// 53 bits in [0, 1).
inline double unit_interval(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(static_cast<std::uint64_t>(high) << 21 | low >> 11) * 0x1p-53;
}

}  // namespace headwise

#endif  // HEADWISE_MODELS_RANDOM_STREAMS_H_
