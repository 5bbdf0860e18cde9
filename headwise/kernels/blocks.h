// SPDX-License-Identifier: Apache-2.0
// The fixed blocks of the canonical program (docs/numerics.md). They are part of the bits: changing one changes
// results.
#ifndef HEADWISE_KERNELS_BLOCKS_H_
#define HEADWISE_KERNELS_BLOCKS_H_

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// Keys [256 n, 256 n + 256) by absolute position form one block of a row's softmax and of its context.
inline constexpr Index kKeyBlock = 256;
// Queries at positions [128 n, 128 n + 128) form one block of the sums behind grad_keys and grad_values.
inline constexpr Index kQueryBlock = 128;
// No tile has more rows.
inline constexpr Index kMostTileRows = 128;
// Inputs (or outputs, or tokens) [256 n, 256 n + 256) form one block of a projection's sum.
inline constexpr Index kLinearBlock = 256;
// A block's row sum runs over 16 lanes (key mod 16), then over a tree: 8, 4, 2, 1.
inline constexpr int kSumLanes = 16;

constexpr Index floor_div(Index value, Index by) { return value >= 0 ? value / by : -((-value + by - 1) / by); }
constexpr Index ceil_div(Index value, Index by) { return (value + by - 1) / by; }
constexpr Index round_up(Index value, Index to) { return ceil_div(value, to) * to; }

}  // namespace headwise

#endif  // HEADWISE_KERNELS_BLOCKS_H_
