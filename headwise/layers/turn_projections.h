// SPDX-License-Identifier: Apache-2.0
// The rotary rule on a layer's projections, and back again on their gradients. Not installed.
#ifndef HEADWISE_LAYERS_TURN_PROJECTIONS_H_
#define HEADWISE_LAYERS_TURN_PROJECTIONS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/kernels/positions.h"
#include "headwise/kernels/rotary.h"
#include "headwise/layers/head_views.h"
#include "headwise/tensor/errors.h"

namespace headwise {

// Where each query row 0 stands: one for all, or (batch,).
inline std::vector<Index> query_offsets(const Visibility& visibility, const AttentionShape& shape) {
  std::vector<Index> offsets;
  for (Index b = 0; b < shape.batch; ++b) offsets.push_back(query_offset_of(visibility, shape, b));
  if (std::all_of(offsets.begin(), offsets.end(), [&](Index offset) { return offset == offsets.front(); })) {
    offsets.resize(std::min<std::size_t>(offsets.size(), 1));
  }
  return offsets;
}

// Throws ArgumentError for positions that a rotary layer cannot turn by.
inline void check_turns(const AttentionConfig& config, const Visibility& visibility, const AttentionShape& shape) {
  if (!config.rotary) return;
  // Far above any text, and every position is exact in double and its angle in range.
  constexpr Index kFarthest = Index{1} << 40;
  for (const Index offset : query_offsets(visibility, shape)) {
    if (offset >= -kFarthest && offset <= kFarthest) continue;
    throw ArgumentError(config.who + ": query_offset must be in -2^40..2^40 with rotary positions, got " +
                        std::to_string(offset));
  }
}

// projected: (batch, seq, stacked rows), whose queries and keys are turned in place; `visibility` says where they
// stand.
template <class T>
void turn_projections(const AttentionConfig& config, const AttentionSizes& sizes, const Visibility& visibility,
                      const AttentionShape& shape, TensorView<T, 3> projected, bool backwards,
                      const Execution& execution) {
  if (!config.rotary || projected.elements() == 0) return;
  const std::vector<double> frequencies = rotary_frequencies(*config.rotary, sizes.head_dim);
  const auto turn = [&](RowRange rows, const std::vector<Index>& offsets) {
    turn_pairs<T>(projected.slice(2, rows.first, rows.first + rows.count).split(2, rows.count / sizes.head_dim),
                  {frequencies, config.rotary->style == RotaryStyle::kInterleaved, backwards, offsets,
                   rotary_amplitude(*config.rotary)},
                  execution);
  };
  const std::vector<Index> offsets = query_offsets(visibility, shape);
  if (offsets == std::vector<Index>{0}) return turn({0, sizes.query_width() + sizes.kv_width()}, offsets);
  turn(sizes.query_rows(), offsets);
  turn(sizes.key_rows(), {0});
}

}  // namespace headwise

#endif  // HEADWISE_LAYERS_TURN_PROJECTIONS_H_
