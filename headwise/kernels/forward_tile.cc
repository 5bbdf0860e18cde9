// SPDX-License-Identifier: Apache-2.0
// context = softmax(scores) v for a tile of rows, one key block after the other. Per block: a product gives the scores,
// each row gets its rules and its own softmax, a second product gives the block's context, which is folded into what
// came before. docs/numerics.md states every rounding; canonical_forward.cc is the same program in plain loops.
#include "headwise/kernels/forward_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/forward_tile.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/fold-inl.h"
#include "headwise/kernels/score_rule-inl.h"
#include "headwise/kernels/score_tile-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// exp(score - max) in place over columns [first, last) of a row, multiples of 16; returns the sum.
template <class A>
HWY_INLINE A ExponentialsAndSum(A* row, Index first, Index last, A shift) {
  const Tag<A> d;
  constexpr int kVectors = kVectorsPer16<A>;
  const auto minus = hn::Set(d, shift);
  Vector<A> lanes[kVectors];
  for (int v = 0; v < kVectors; ++v) lanes[v] = hn::Zero(d);
  for (Index j = first; j < last; j += kSumLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      A* at = row + j + v * kLanes<A>;
      const auto value = Exp<A>(hn::Sub(hn::Load(d, at), minus));
      hn::Store(value, d, at);
      lanes[v] = hn::Add(lanes[v], value);
    }
  }
  return SumLanes<A>(lanes);
}

// Maximum over columns [first, last), multiples of 16; -0 becomes +0.
template <class A>
HWY_INLINE A RowMaximum(const A* row, Index first, Index last) {
  const Tag<A> d;
  Vector<A> max[kVectorsPer16<A>];
  for (auto& lane : max) lane = hn::Set(d, -std::numeric_limits<A>::infinity());
  for (Index j = first; j < last; j += kSumLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectorsPer16<A>; ++v) max[v] = hn::Max(max[v], hn::Load(d, row + j + v * kLanes<A>));
  }
  for (int v = 1; v < kVectorsPer16<A>; ++v) max[0] = hn::Max(max[0], max[v]);
  return hn::GetLane(hn::MaxOfLanes(d, max[0])) + A{0};
}

// Columns of the 16 from `start` on that lie outside `own` become -inf.
template <class A>
HWY_INLINE void HideOutside(A* row, Index start, const RowColumns& own) {
  const Tag<A> d;
  const auto hidden = hn::Set(d, -std::numeric_limits<A>::infinity());
  const auto begin = hn::Set(d, static_cast<A>(own.begin)), end = hn::Set(d, static_cast<A>(own.end));
#pragma GCC unroll 4
  for (int v = 0; v < kVectorsPer16<A>; ++v) {
    A* at = row + start + v * kLanes<A>;
    const auto column = hn::Iota(d, static_cast<A>(start + v * kLanes<A>));
    const auto inside = hn::And(hn::Ge(column, begin), hn::Lt(column, end));
    hn::Store(hn::IfThenElse(inside, hn::Load(d, at), hidden), d, at);
  }
}

// Columns [first, last), multiples of 16, become 0.
template <class A>
HWY_INLINE void ClearColumns(A* row, Index first, Index last) {
  const Tag<A> d;
  for (Index j = first; j < last; j += kLanes<A>) hn::Store(hn::Zero(d), d, row + j);
}

// The rules and the maximum of one row in one block; -inf up to the next multiples of 16 outside its own columns.
template <class A>
HWY_INLINE A MaximumOfRow(const ForwardTile<A>& tile, Index r, const RowColumns& own, Index start, bool guard) {
  A* scores = tile.scores + r * kTileStride;
  const Index first = own.begin / kSumLanes * kSumLanes, last = round_up(own.end, kSumLanes);
  ApplyRules<A>(tile.rules, tile.row[r], start, own, scores, static_cast<A*>(nullptr));
  if (own.begin != first) HideOutside<A>(scores, first, own);
  if (own.end != last) HideOutside<A>(scores, last - kSumLanes, own);
  if (guard) MarkVisible<A>(scores, own, tile.visible + r * kKeyBlock);
  return RowMaximum<A>(scores, first, last);
}

// Scores become exp(score - max), 0 where hidden, in all of `columns` (and up to the next multiples of 16); returns
// their sum.
template <class A>
HWY_INLINE A ExponentiateRow(A* scores, const RowColumns& own, const RowColumns& columns, A max) {
  const Index begin = columns.begin / kSumLanes * kSumLanes;
  if (own.empty()) {
    ClearColumns<A>(scores, begin, columns.end);
    return 0;
  }
  const Index first = own.begin / kSumLanes * kSumLanes, last = round_up(own.end, kSumLanes);
  const A sum = ExponentialsAndSum<A>(scores, first, last, max == -std::numeric_limits<A>::infinity() ? A{0} : max);
  ClearColumns<A>(scores, begin, first);
  ClearColumns<A>(scores, last, columns.end);
  return sum;
}

// Softmax of every row in one block. Some rows at a time: their maxima do not wait for one another, nor do their
// exponentials, and what the first pass read is still near for the second.
template <class A>
HWY_NOINLINE void SoftmaxRows(const ForwardTile<A>& tile, const GroupColumns& columns, Index start, bool guard, A* max,
                              A* sum) {
  constexpr Index kTogether = 8;
  RowColumns own[kTogether];
  for (Index first = 0; first < tile.rows; first += kTogether) {
    const Index count = std::min(kTogether, tile.rows - first);
    for (Index n = 0; n < count; ++n) {
      own[n] = columns_of_row(tile.row[first + n], start);
      max[first + n] =
          own[n].empty() ? -std::numeric_limits<A>::infinity() : MaximumOfRow<A>(tile, first + n, own[n], start, guard);
    }
    for (Index n = 0; n < count; ++n) {
      const Index r = first + n;
      // The second product reads what the row's group needs, the taps all of it.
      const RowColumns& read = tile.exps != nullptr ? columns.all : columns.group[r / kTileRows];
      sum[r] = ExponentiateRow<A>(tile.scores + r * kTileStride, own[n], read, max[r]);
    }
  }
}

template <class A>
HWY_INLINE void TapExponentials(const ForwardTile<A>& tile, Index block, const RowColumns& columns, const A* max) {
  const Index start = (block - tile.first_block) * kKeyBlock;
  for (Index r = 0; r < tile.rows; ++r) {
    A* out = tile.exps + r * tile.exps_stride + start;
    const Index end = std::min(kKeyBlock, tile.exps_stride - start);
    std::fill(out, out + end, A{0});
    const A* from = tile.scores + r * kTileStride;
    std::copy(from + columns.begin, from + std::min(columns.end, end), out + columns.begin);
    tile.block_max[(block - tile.first_block) * kForwardRows + r] = max[r];
  }
}

// context of the block, folded into tile.context (or stored, for a partial).
template <class A>
HWY_NOINLINE void AccumulateContext(const ForwardTile<A>& tile, Index block, const GroupColumns& columns,
                                    const FoldFactors<A>& factors, A* context) {
  const PanelLayout layout{tile.packed.v_head_dim, kPanelWidth<A>};
  const Index padded = layout.padded();
  const A* values = tile.packed.values + block * padded * kKeyBlock;
  for (Index p = 0; p < layout.panels(); ++p) {
    const A* panel = values + layout.offset(p, kKeyBlock);
    const Index width = layout.width_of(p);
    for (Index first = 0; first < tile.rows; first += kTileRows) {
      const Index count = std::min<Index>(kTileRows, tile.rows - first);
      const RowColumns& keys = columns.group[first / kTileRows];
      if (keys.empty()) continue;
      if (tile.ahead != nullptr) tile.ahead->step();
      const FoldStore<A> store{context + first * padded + p * layout.width,
                               padded,
                               factors.keep + first,
                               factors.join + first,
                               factors.skip + first,
                               count};
      MultiplyPanel<A, kTileStride, 1>(tile.scores + first * kTileStride + keys.begin, panel + keys.begin * width,
                                       keys.end - keys.begin, count, layout.narrow(p), store);
    }
  }
}

// The same when the block's values hold inf or NaN and some row does not see all keys: hidden keys are not read.
template <class A>
HWY_NOINLINE void AccumulateGuarded(const ForwardTile<A>& tile, Index block, const FoldFactors<A>& factors,
                                    A* context) {
  const Tag<A> d;
  const PanelLayout layout{tile.packed.v_head_dim, kPanelWidth<A>};
  const Index padded = layout.padded();
  const A* values = tile.packed.values + block * padded * kKeyBlock;
  for (Index r = 0; r < tile.rows; ++r) {
    const RowColumns own = columns_of_row(tile.row[r], block * kKeyBlock);
    if (own.begin >= own.end) continue;
    const FoldStore<A> store{context + r * padded, padded, factors.keep + r, factors.join + r, factors.skip + r, 1};
    for (Index column = 0; column < padded; column += kLanes<A>) {
      const Index p = column / layout.width, width = layout.width_of(p);
      const A* panel = values + layout.offset(p, kKeyBlock) + column % layout.width;
      auto sum = hn::Zero(d);
      for (Index j = own.begin; j < own.end; ++j) {
        if (!tile.visible[r * kKeyBlock + j]) continue;
        sum = hn::MulAdd(hn::Set(d, tile.scores[r * kTileStride + j]), hn::Load(d, panel + j * width), sum);
      }
      store(0, static_cast<int>(column / kLanes<A>), sum);
    }
  }
}

template <class A>
HWY_NOINLINE void ForwardBlock(const ForwardTile<A>& tile, Index block, RowState<A>& state, A* context) {
  const Index start = block * kKeyBlock;
  const GroupColumns groups = GroupColumnsOf(tile.row, tile.rows, start);
  const RowColumns& columns = groups.all;
  if (columns.empty()) return;
  const A* keys = tile.packed.keys + block * kKeyBlock * tile.packed.head_dim;
  MultiplyBlock<A>(tile.queries, keys, tile.packed.head_dim, tile.rows, groups, tile.scores, tile.ahead);
  const bool partly = tile.rules.may_hide() || !every_row_needs(columns, tile.row, tile.rows, start);
  const bool guard = partly && !tile.packed.values_finite[block];
  A max[kForwardRows], sum[kForwardRows];
  SoftmaxRows<A>(tile, groups, start, guard, max, sum);
  if (tile.exps != nullptr) TapExponentials<A>(tile, block, columns, max);
  if (tile.rules.dropout_threshold > 0) {
    for (Index r = 0; r < tile.rows; ++r) {
      const RowColumns own = columns_of_row(tile.row[r], start);
      if (own.begin < own.end) DropWeights<A>(tile.rules, tile.row[r], start, own, tile.scores + r * kTileStride);
    }
  }
  FoldFactors<A> factors;
  if (tile.partial) {
    const Index at = (block - tile.first_block) * kForwardRows;
    std::copy(max, max + tile.rows, tile.max + at);
    std::copy(sum, sum + tile.rows, tile.sum + at);
    factors.store_all(sum, tile.rows);
  } else {
    state.fold(tile.rules, tile.row, tile.rows, max, sum, factors);
  }
  if (guard) {
    AccumulateGuarded<A>(tile, block, factors, context);
  } else {
    AccumulateContext<A>(tile, block, groups, factors, context);
  }
}

template <class A>
void RunForwardTile(const ForwardTile<A>& tile) {
  const Index padded = PanelLayout{tile.packed.v_head_dim, kPanelWidth<A>}.padded();
  const Index blocks = tile.last_block - tile.first_block;
  const Index copies = tile.partial ? blocks : 1;
  if (!tile.resume) {
    std::fill(tile.context, tile.context + copies * tile.rows * padded, A{0});
    std::fill(tile.max, tile.max + copies * kForwardRows, -std::numeric_limits<A>::infinity());
    std::fill(tile.sum, tile.sum + copies * kForwardRows, A{0});
  }
  if (tile.exps != nullptr) {
    std::fill(tile.exps, tile.exps + tile.rows * tile.exps_stride, A{0});
    std::fill(tile.block_max, tile.block_max + blocks * kForwardRows, -std::numeric_limits<A>::infinity());
  }
  RowState<A> state{tile.max, tile.sum};
  for (Index block = tile.first_block; block < tile.last_block; ++block) {
    A* context = tile.context + (tile.partial ? (block - tile.first_block) * tile.rows * padded : 0);
    ForwardBlock<A>(tile, block, state, context);
  }
}

template <class A>
void RunPartialFold(const PartialFold<A>& fold) {
  std::fill(fold.context, fold.context + fold.rows * fold.padded, A{0});
  std::fill(fold.max, fold.max + kForwardRows, -std::numeric_limits<A>::infinity());
  std::fill(fold.sum, fold.sum + kForwardRows, A{0});
  RowState<A> state{fold.max, fold.sum};
  const Tag<A> d;
  for (Index block = 0; block < fold.blocks; ++block) {
    FoldFactors<A> factors;
    state.fold(fold.rules, fold.row, fold.rows, fold.partial_max + block * kForwardRows,
               fold.partial_sum + block * kForwardRows, factors);
    for (Index r = 0; r < fold.rows; ++r) {
      const FoldStore<A> store{
          fold.context + r * fold.padded, fold.padded, factors.keep + r, factors.join + r, factors.skip + r, 1};
      const A* from = fold.partial_context + (block * fold.rows + r) * fold.padded;
      for (Index column = 0; column < fold.padded; column += kLanes<A>) {
        store(0, static_cast<int>(column / kLanes<A>), hn::Load(d, from + column));
      }
    }
  }
}

void RunForwardTileF32(const ForwardTile<float>& tile) { RunForwardTile<float>(tile); }
void RunForwardTileF64(const ForwardTile<double>& tile) { RunForwardTile<double>(tile); }
void RunPartialFoldF32(const PartialFold<float>& fold) { RunPartialFold<float>(fold); }
void RunPartialFoldF64(const PartialFold<double>& fold) { RunPartialFold<double>(fold); }
TileShape TileShapeF32() { return {kTileRows, kPanelWidth<float>}; }
TileShape TileShapeF64() { return {kTileRows, kPanelWidth<double>}; }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
ForwardTileFunction<float> forward_tile_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, RunForwardTileF32);
}
template <>
ForwardTileFunction<double> forward_tile_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, RunForwardTileF64);
}
template <>
PartialFoldFunction<float> partial_fold_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, RunPartialFoldF32);
}
template <>
PartialFoldFunction<double> partial_fold_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, RunPartialFoldF64);
}
template <>
TileShape tile_shape_for<float>(Isa isa) {
  return HEADWISE_FOR_ISA(isa, TileShapeF32)();
}
template <>
TileShape tile_shape_for<double>(Isa isa) {
  return HEADWISE_FOR_ISA(isa, TileShapeF64)();
}

}  // namespace headwise
#endif  // HWY_ONCE
