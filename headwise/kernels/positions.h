// SPDX-License-Identifier: Apache-2.0
// The visibility rules resolved for one call: where each query stands and whether it sees a key.
#ifndef HEADWISE_KERNELS_POSITIONS_H_
#define HEADWISE_KERNELS_POSITIONS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "headwise/kernels/attention.h"

namespace headwise {

// Number of keys that exist for a batch entry.
inline Index keys_of(const Visibility& visibility, const AttentionShape& shape, Index batch) {
  return visibility.kv_lengths.empty() ? shape.seq_kv : visibility.kv_lengths[batch];
}

// Position of query row 0 of a batch entry.
inline Index query_offset_of(const Visibility& visibility, const AttentionShape& shape, Index batch) {
  switch (visibility.alignment) {
    case Alignment::kOffset:
      return visibility.query_offset[visibility.query_offset.size() == 1 ? 0 : batch];
    case Alignment::kLowerRight:
      return keys_of(visibility, shape, batch) - shape.seq_q;
    case Alignment::kSelf:
    case Alignment::kUpperLeft:
      break;
  }
  return 0;
}

// Keys [begin, end) that the position rules and the length leave to a query; a mask or a bias may hide more.
struct KeyRange {
  Index begin = 0, end = 0;
};

inline KeyRange key_range(const Visibility& visibility, Index keys, Index position) {
  KeyRange range{0, keys};
  // Differences are compared, since position + right would overflow for the widest windows.
  const auto end_at_most = [&](Index right) {
    if (right < keys - position) range.end = std::min(range.end, position + right + 1);
  };
  if (visibility.causal) end_at_most(0);
  if (visibility.window_right >= 0) end_at_most(visibility.window_right);
  if (visibility.window_left >= 0 && visibility.window_left < position) range.begin = position - visibility.window_left;
  range.end = std::max(range.end, range.begin);
  return range;
}

// Reads a view whose axes of length 1 stand for every index.
template <class T>
T& at_broadcast(const TensorView<T, 4>& view, Index b, Index h, Index i, Index j) {
  return view(view.size(0) == 1 ? 0 : b, view.size(1) == 1 ? 0 : h, view.size(2) == 1 ? 0 : i,
              view.size(3) == 1 ? 0 : j);
}

// The scale of the scores, rounded once to the working type.
template <class T>
Accumulated<T> score_scale(const ScoreRule<T>& rule, const AttentionShape& shape) {
  // Without a head_dim every score is an empty sum: 0, as long as the scale is finite.
  const auto head_dim = static_cast<double>(std::max<Index>(shape.head_dim, 1));
  return static_cast<Accumulated<T>>(rule.scale ? *rule.scale : 1.0 / std::sqrt(head_dim));
}

// Weights of a row whose sum is NaN, for all seq_kv keys: NaN on every key that no rule hides, whatever its score was.
template <class T>
void poison_row(const AttentionProblem<T>& problem, Index b, Index h, Index i, const KeyRange& range,
                std::span<Accumulated<T>> weights) {
  using A = Accumulated<T>;
  std::fill(weights.begin(), weights.end(), A{0});
  for (Index j = range.begin; j < range.end; ++j) {
    const bool masked = problem.visibility.mask && !at_broadcast(problem.visibility.mask, b, h, i, j);
    const bool hidden = problem.rule.bias &&
                        widen<A>(at_broadcast(problem.rule.bias, b, h, i, j)) == -std::numeric_limits<A>::infinity();
    weights[j] = masked || hidden ? A{0} : std::numeric_limits<A>::quiet_NaN();
  }
}

}  // namespace headwise

#endif  // HEADWISE_KERNELS_POSITIONS_H_
