// SPDX-License-Identifier: Apache-2.0
// A tile of products against one key block, row-major with stride kTileStride: scores (queries x keys) in both passes,
// gradients of the weights (grad_context x values) in backward.
#if defined(HEADWISE_KERNELS_SCORE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_SCORE_TILE_INL_H_
#undef HEADWISE_KERNELS_SCORE_TILE_INL_H_
#else
#define HEADWISE_KERNELS_SCORE_TILE_INL_H_
#endif

#include "headwise/kernels/block_columns.h"
#include "headwise/kernels/register_tile-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

template <class A>
struct TileStore {
  A* tile;
  Index rows;
  HWY_INLINE void operator()(int row, int v, Vector<A> value) const {
    if (row < rows) hn::Store(value, Tag<A>(), tile + row * kTileStride + v * kLanes<A>);
  }
};

// tile[row][column] for the columns that each group of rows needs. left: slivers of depth `depth`; right: the block's
// panels over its keys. Columns outside stay what they were.
template <class A>
HWY_NOINLINE void MultiplyBlock(const A* left, const A* right, Index depth, const TileRow<A>* row, Index rows,
                                Index start, const RowColumns& all, A* tile) {
  constexpr Index kWidth = kPanelWidth<A>;
  for (Index p = all.begin / kWidth; p * kWidth < all.end; ++p) {
    for (Index first = 0; first < rows; first += kTileRows) {
      const Index count = std::min<Index>(kTileRows, rows - first);
      const RowColumns group = columns_of_rows(row + first, count, start);
      if (group.begin >= (p + 1) * kWidth || group.end <= p * kWidth) continue;
      MultiplyPanel<A, 1, kTileRows>(left + first * depth, right + p * kWidth * depth, depth, count, false,
                                     TileStore<A>{tile + first * kTileStride + p * kWidth, count});
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#endif  // per-target include guard
