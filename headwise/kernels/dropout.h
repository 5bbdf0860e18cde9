// SPDX-License-Identifier: Apache-2.0
// Which weights are dropped. A pure function of (seed, call, batch, head, query position, key), so that any tiling,
// thread count, slice or rank draws the same mask and backward draws it again instead of storing it.
#ifndef HEADWISE_KERNELS_DROPOUT_H_
#define HEADWISE_KERNELS_DROPOUT_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "headwise/kernels/attention.h"
#include "headwise/runtime/random.h"

namespace headwise {

// The Philox key of one (batch, head): one evaluation under the seed, counter (call, batch, head).
struct DropoutStream {
  std::array<std::uint32_t, 2> key{};
  Index position_offset = 0;
};

inline DropoutStream dropout_stream(const DropoutRule& rule, Index batch, Index head) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  const auto drawn =
      philox4x32_10({low(rule.call), high(rule.call), static_cast<std::uint32_t>(batch + rule.batch_offset),
                     static_cast<std::uint32_t>(head + rule.head_offset)},
                    {low(rule.seed), high(rule.seed)});
  return {{drawn[0], drawn[1]}, rule.position_offset};
}

// One evaluation serves 8 keys, 16 apart, inside an aligned run of 128 keys: lane = key % 16, 16-bit word = key % 128
// / 16. A vector of 16 neighbouring keys then needs no shuffle.
inline std::uint32_t dropout_draw(const DropoutStream& stream, Index position, Index key) {
  const auto query = static_cast<std::uint64_t>(position + stream.position_offset);
  key += stream.position_offset;
  const auto run = static_cast<std::uint64_t>(key / 128 * 16 + key % 16);
  const auto words = philox4x32_10({static_cast<std::uint32_t>(run), static_cast<std::uint32_t>(run >> 32),
                                    static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(query >> 32)},
                                   stream.key);
  const Index word = key % 128 / 16;
  return (words[word / 2] >> (16 * (word % 2))) & 0xFFFFU;
}

// A weight is dropped when its draw is below this: the probability in steps of 2^-16.
inline std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(std::min(std::lround(probability * 65536.0), 65535L));
}

// What kept weights are multiplied by: one over the quantised keep probability.
inline double dropout_keep_scale(std::uint32_t threshold) { return 65536.0 / (65536.0 - threshold); }

}  // namespace headwise

#endif  // HEADWISE_KERNELS_DROPOUT_H_
