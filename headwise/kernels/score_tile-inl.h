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
#include "headwise/kernels/read_ahead.h"
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

// The columns of a key block that each group of kTileRows rows needs, and all rows together.
struct GroupColumns {
  RowColumns all;
  RowColumns group[(kMostTileRows + kTileRows - 1) / kTileRows];
};

template <class A>
HWY_INLINE GroupColumns GroupColumnsOf(const TileRow<A>* row, Index rows, Index start) {
  GroupColumns columns;
  for (Index first = 0; first < rows; first += kTileRows) {
    const RowColumns own = columns_of_rows(row + first, std::min<Index>(kTileRows, rows - first), start);
    columns.group[first / kTileRows] = own;
    if (own.empty()) continue;
    columns.all.begin = std::min(columns.all.begin, own.begin);
    columns.all.end = std::max(columns.all.end, own.end);
  }
  return columns;
}

// tile[row][column] for the columns that each group of rows needs, in whole vectors. left: slivers of depth `depth`;
// right: the block's panels over its keys. Columns outside stay what they were. `ahead` may be null.
template <class A>
HWY_NOINLINE void MultiplyBlock(const A* left, const A* right, Index depth, Index rows, const GroupColumns& columns,
                                A* tile, ReadAhead* ahead) {
  constexpr Index kWidth = kPanelWidth<A>, kHalf = kLanes<A>;
  for (Index p = columns.all.begin / kWidth; p * kWidth < columns.all.end; ++p) {
    for (Index first = 0; first < rows; first += kTileRows) {
      const Index count = std::min<Index>(kTileRows, rows - first);
      const Index begin = columns.group[first / kTileRows].begin - p * kWidth;
      const Index end = columns.group[first / kTileRows].end - p * kWidth;
      if (begin >= kWidth || end <= 0) continue;
      if (ahead != nullptr) ahead->step();
      const A* slivers = left + first * depth;
      const A* panel = right + p * kWidth * depth;
      const TileStore<A> store{tile + first * kTileStride + p * kWidth, count};
      if (end <= kHalf) {
        MultiplyRows<A, 1, kTileVectors, 1, kTileRows>(slivers, panel, depth, count, store);
      } else if (begin >= kHalf) {
        MultiplyRows<A, 1, kTileVectors, 1, kTileRows>(slivers, panel + kHalf, depth, count,
                                                       TileStore<A>{store.tile + kHalf, count});
      } else {
        MultiplyRows<A, kTileVectors, kTileVectors, 1, kTileRows>(slivers, panel, depth, count, store);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#endif  // per-target include guard
