// SPDX-License-Identifier: Apache-2.0
// The visibility rules resolved for one call: where each query stands and whether it sees a key.
#ifndef HEADWISE_KERNELS_POSITIONS_H_
#define HEADWISE_KERNELS_POSITIONS_H_

#include <algorithm>

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
  if (visibility.causal) range.end = std::min(range.end, position + 1);
  if (visibility.window_right >= 0) range.end = std::min(range.end, position + visibility.window_right + 1);
  if (visibility.window_left >= 0) range.begin = std::max(range.begin, position - visibility.window_left);
  range.end = std::max(range.end, range.begin);
  return range;
}

}  // namespace headwise

#endif  // HEADWISE_KERNELS_POSITIONS_H_
