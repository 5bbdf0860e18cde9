// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/dropout.h"

#include <algorithm>

#include "headwise/kernels/dropout.h"
#include "headwise/models/random_streams.h"
#include "headwise/models/row_tiles.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

// Elements that 16 draws serve.
constexpr Index kRun = 128;
constexpr Index kLanes = 16;

template <class T>
void drop_run(std::array<std::uint32_t, 2> key, Index run, std::uint32_t threshold, T scale, std::span<T> values) {
  const Index count = static_cast<Index>(values.size());
  for (Index lane = 0; lane < std::min(kLanes, count); ++lane) {
    const auto at = static_cast<std::uint64_t>(run * kLanes + lane);
    const auto words = philox4x32_10({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0}, key);
    for (Index word = 0; word * kLanes + lane < count; ++word) {
      const std::uint32_t draw = (words[word / 2] >> (16 * (word % 2))) & 0xFFFFU;
      T& value = values[word * kLanes + lane];
      value = draw < threshold ? T{0} : value * scale;
    }
  }
}

}  // namespace

template <class T>
void apply_dropout(const ElementDropout& rule, std::span<T> values, const Execution& execution) {
  const std::uint32_t threshold = dropout_threshold(rule.probability);
  if (threshold == 0) return;
  const auto words = draw_from(RandomStream::kDropout, rule.seed, rule.call, rule.site);
  const T scale = static_cast<T>(dropout_keep_scale(threshold));
  const Index count = static_cast<Index>(values.size());
  for_row_tiles((count + kRun - 1) / kRun, kRun, execution, [&](Index first, Index last) {
    for (Index run = first; run < last; ++run) {
      drop_run<T>({words[0], words[1]}, run, threshold, scale,
                  values.subspan(run * kRun, std::min(kRun, count - run * kRun)));
    }
  });
}

template HEADWISE_EXPORT void apply_dropout(const ElementDropout&, std::span<float>, const Execution&);
template HEADWISE_EXPORT void apply_dropout(const ElementDropout&, std::span<double>, const Execution&);

}  // namespace headwise
