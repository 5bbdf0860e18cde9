// SPDX-License-Identifier: Apache-2.0
// Per (query block, key block): scores and the weights' gradients are two products; each row turns them into weights
// and grad_scores; three products then add to grad_values, grad_keys and grad_queries. canonical_backward.cc is the
// same program in plain loops.
#include "headwise/kernels/backward_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/backward_tile.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/score_rule-inl.h"
#include "headwise/kernels/score_tile-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// gradient += tile, rows below `rows`.
template <class A>
struct AddStore {
  A* gradient;
  Index stride;
  Index rows;
  HWY_INLINE void operator()(int row, int v, Vector<A> value) const {
    if (row >= rows) return;
    const Tag<A> d;
    A* at = gradient + row * stride + v * kLanes<A>;
    hn::Store(hn::Add(hn::Load(d, at), hn::Add(value, hn::Zero(d))), d, at);
  }
};

// weights = exp(score - max) / sum and grad_scores = weights * (grad_weights - delta), with dropout where asked for;
// both 0 for hidden keys and in all other columns of `all`.
template <class A>
HWY_NOINLINE void DifferentiateRow(const BackwardTile<A>& tile, Index r, const RowColumns& own) {
  const Tag<A> d;
  A* weights = tile.weights + r * kTileStride;
  A* grads = tile.grad_scores + r * kTileStride;
  const std::uint32_t threshold = tile.rules.dropout_threshold;
  alignas(64) std::uint32_t draws[kKeyBlock];
  if (threshold > 0)
    DrawBlock(tile.queries.row[r].dropout, tile.queries.row[r].position, tile.block * kKeyBlock, own, draws);
  const auto max = hn::Set(d, tile.queries.max[r]), inverse = hn::Set(d, tile.queries.inverse_sum[r]);
  const auto delta = hn::Set(d, tile.queries.delta[r]), keep_scale = hn::Set(d, tile.rules.keep_scale);
  const auto hidden_score = hn::Set(d, -std::numeric_limits<A>::infinity());
  for (Index j = own.begin / kSumLanes * kSumLanes; j < own.end; j += kLanes<A>) {
    const auto score = hn::Load(d, weights + j);
    auto weight = hn::Mul(Exp<A>(hn::Sub(score, max)), inverse);
    auto grad_weight = hn::Load(d, grads + j);
    auto kept = weight;
    if (threshold > 0) {
      kept = KeepDrawn<A>(hn::Mul(weight, keep_scale), draws + j, threshold);
      grad_weight = KeepDrawn<A>(hn::Mul(grad_weight, keep_scale), draws + j, threshold);
    }
    auto grad_score = hn::Mul(weight, hn::Sub(grad_weight, delta));
    const auto hidden = hn::Eq(score, hidden_score);
    hn::Store(hn::IfThenZeroElse(hidden, kept), d, weights + j);
    hn::Store(hn::IfThenZeroElse(hidden, grad_score), d, grads + j);
  }
}

template <class A>
HWY_INLINE void ClearOutside(A* row, const RowColumns& own, const RowColumns& all) {
  if (own.empty()) {
    std::fill(row + all.begin, row + all.end, A{0});
    return;
  }
  if (all.begin < own.begin) std::fill(row + all.begin, row + own.begin, A{0});
  if (own.end < all.end) std::fill(row + own.end, row + all.end, A{0});
}

template <class A>
HWY_NOINLINE void FinishRow(const BackwardTile<A>& tile, Index r, const RowColumns& own) {
  const Index start = tile.block * kKeyBlock;
  A* grads = tile.grad_scores + r * kTileStride;
  const TileRow<A>& row = tile.queries.row[r];
  const bool* visible = tile.visible + r * kKeyBlock;
  if (tile.alibi != nullptr) {
    for (Index j = own.begin; j < own.end; ++j) {
      if (!visible[j]) continue;
      tile.alibi[r] += static_cast<double>(grads[j]) * static_cast<double>(std::abs(row.position - (start + j)));
    }
  }
  if (tile.bias_tap != nullptr) {
    tile.bias_tap(tile.bias_context, r, start + own.begin, own.end - own.begin, grads + own.begin, visible + own.begin);
  }
  if (tile.rules.softcap > 0) {
    const A* derivative = tile.derivative + r * kTileStride;
    for (Index j = own.begin; j < own.end; ++j) grads[j] = grads[j] * derivative[j];
  }
}

template <class A>
HWY_NOINLINE void TransformRow(const BackwardTile<A>& tile, Index r, const RowColumns& all, bool track) {
  const Index start = tile.block * kKeyBlock;
  const BackwardQueries<A>& q = tile.queries;
  A* scores = tile.weights + r * kTileStride;
  RowColumns own = columns_of_row(q.row[r], start);
  if (q.inverse_sum[r] == 0) own = RowColumns{};
  bool* visible = tile.visible + r * kKeyBlock;
  if (track) std::fill(visible, visible + kKeyBlock, false);
  if (!own.empty()) {
    ApplyRules<A>(tile.rules, q.row[r], start, own, scores,
                  tile.rules.softcap > 0 ? tile.derivative + r * kTileStride : nullptr);
    if (track) MarkVisible<A>(scores, own, visible);
    DifferentiateRow<A>(tile, r, own);
    FinishRow<A>(tile, r, own);
  }
  ClearOutside<A>(scores, own, all);
  ClearOutside<A>(tile.grad_scores + r * kTileStride, own, all);
}

// Rows of the query block that need any column of [begin, end).
template <class A>
HWY_INLINE RowColumns RowsThatNeed(const BackwardTile<A>& tile, Index begin, Index end) {
  RowColumns rows{tile.queries.rows, 0};
  for (Index r = 0; r < tile.queries.rows; ++r) {
    const RowColumns own = columns_of_row(tile.queries.row[r], tile.block * kKeyBlock);
    if (own.begin >= end || own.end <= begin) continue;
    rows.begin = std::min(rows.begin, r);
    rows.end = r + 1;
  }
  return rows;
}

// The rows that need a key of each group of kTileRows keys, counted from all.begin.
struct KeyGroups {
  RowColumns all;
  RowColumns rows[kKeyBlock / kTileRows + 1];
};

template <class A>
HWY_NOINLINE KeyGroups KeyGroupsOf(const BackwardTile<A>& tile) {
  const BackwardQueries<A>& q = tile.queries;
  const Index start = tile.block * kKeyBlock;
  KeyGroups groups;
  groups.all = columns_of_rows(q.row, q.rows, start);
  const bool whole = every_row_needs(groups.all, q.row, q.rows, start);
  for (Index first = groups.all.begin, n = 0; first < groups.all.end; first += kTileRows, ++n) {
    groups.rows[n] =
        whole ? RowColumns{0, q.rows} : RowsThatNeed(tile, first, std::min<Index>(first + kTileRows, groups.all.end));
  }
  return groups;
}

// gradient[key][column] += sum over queries of left[query][key] * right[query][column].
template <class A>
HWY_NOINLINE void MultiplyTransposed(const BackwardTile<A>& tile, const A* left, const A* right, Index width,
                                     const KeyGroups& groups, A* gradient) {
  const PanelLayout layout{width, kPanelWidth<A>};
  const Index padded = layout.padded();
  for (Index first = groups.all.begin, n = 0; first < groups.all.end; first += kTileRows, ++n) {
    const Index count = std::min<Index>(kTileRows, groups.all.end - first);
    const RowColumns& rows = groups.rows[n];
    if (rows.empty()) continue;
    if (tile.ahead != nullptr) tile.ahead->step();
    for (Index p = 0; p < layout.panels(); ++p) {
      const A* panel = right + layout.offset(p, kQueryBlock) + rows.begin * layout.width_of(p);
      MultiplyPanel<A, 1, kTileStride>(left + rows.begin * kTileStride + first, panel, rows.end - rows.begin, count,
                                       layout.narrow(p),
                                       AddStore<A>{gradient + first * padded + p * layout.width, padded, count});
    }
  }
}

// The three products one by one, reading visible pairs only: for blocks with inf or NaN behind a hidden pair.
template <class A>
HWY_NOINLINE void GuardedKeysAndValues(const BackwardTile<A>& tile, const A* left, const A* right, Index width,
                                       const KeyGroups& groups, A* gradient) {
  const Tag<A> d;
  const PanelLayout layout{width, kPanelWidth<A>};
  const Index padded = layout.padded();
  for (Index j = groups.all.begin; j < groups.all.end; ++j) {
    for (Index column = 0; column < padded; column += kLanes<A>) {
      const Index p = column / layout.width;
      const A* panel = right + layout.offset(p, kQueryBlock) + column % layout.width;
      auto sum = hn::Zero(d);
      for (Index r = 0; r < tile.queries.rows; ++r) {
        if (!tile.visible[r * kKeyBlock + j]) continue;
        sum = hn::MulAdd(hn::Set(d, left[r * kTileStride + j]), hn::Load(d, panel + r * layout.width_of(p)), sum);
      }
      AddStore<A>{gradient + j * padded + column, padded, 1}(0, 0, sum);
    }
  }
}

template <class A>
HWY_NOINLINE void GuardedQueries(const BackwardTile<A>& tile) {
  const Tag<A> d;
  const PanelLayout layout{tile.head_dim, kPanelWidth<A>};
  const Index padded = layout.padded();
  for (Index r = 0; r < tile.queries.rows; ++r) {
    for (Index column = 0; column < padded; column += kLanes<A>) {
      const Index p = column / layout.width;
      const A* panel = tile.keys.keys_by_width + layout.offset(p, kKeyBlock) + column % layout.width;
      auto sum = hn::Zero(d);
      for (Index j = 0; j < kKeyBlock; ++j) {
        if (!tile.visible[r * kKeyBlock + j]) continue;
        sum = hn::MulAdd(hn::Set(d, tile.grad_scores[r * kTileStride + j]), hn::Load(d, panel + j * layout.width_of(p)),
                         sum);
      }
      AddStore<A>{tile.grad_queries + r * padded + column, padded, 1}(0, 0, sum);
    }
  }
}

template <class A>
HWY_INLINE bool NeedsGuard(const BackwardTile<A>& tile) {
  return !tile.keys.keys_finite || !tile.queries.finite;
}

template <class A>
bool RunScores(const BackwardTile<A>& tile) {
  const Index start = tile.block * kKeyBlock;
  const BackwardQueries<A>& q = tile.queries;
  const GroupColumns columns = GroupColumnsOf(q.row, q.rows, start);
  const RowColumns& all = columns.all;
  if (all.empty()) return false;
  MultiplyBlock<A>(q.query_slivers, tile.keys.keys_by_key, tile.head_dim, q.rows, columns, tile.weights, tile.ahead);
  MultiplyBlock<A>(q.grad_slivers, tile.keys.values_by_key, tile.v_head_dim, q.rows, columns, tile.grad_scores,
                   tile.ahead);
  const bool track = NeedsGuard(tile) || tile.bias_tap != nullptr || tile.alibi != nullptr;
  for (Index r = 0; r < q.rows; ++r) TransformRow<A>(tile, r, all, track);
  return true;
}

template <class A>
void RunKeysAndValues(const BackwardTile<A>& tile) {
  const KeyGroups groups = KeyGroupsOf(tile);
  const auto multiply = NeedsGuard(tile) ? &GuardedKeysAndValues<A> : &MultiplyTransposed<A>;
  multiply(tile, tile.weights, tile.queries.grad_panels, tile.v_head_dim, groups, tile.grad_values);
  multiply(tile, tile.grad_scores, tile.queries.query_panels, tile.head_dim, groups, tile.grad_keys);
}

template <class A>
void RunQueries(const BackwardTile<A>& tile) {
  if (NeedsGuard(tile)) return GuardedQueries<A>(tile);
  const PanelLayout layout{tile.head_dim, kPanelWidth<A>};
  const Index padded = layout.padded(), start = tile.block * kKeyBlock;
  for (Index p = 0; p < layout.panels(); ++p) {
    const A* panel = tile.keys.keys_by_width + layout.offset(p, kKeyBlock);
    for (Index first = 0; first < tile.queries.rows; first += kTileRows) {
      const Index count = std::min<Index>(kTileRows, tile.queries.rows - first);
      const RowColumns group = columns_of_rows(tile.queries.row + first, count, start);
      if (group.empty()) continue;
      MultiplyPanel<A, kTileStride, 1>(
          tile.grad_scores + first * kTileStride + group.begin, panel + group.begin * layout.width_of(p),
          group.end - group.begin, count, layout.narrow(p),
          AddStore<A>{tile.grad_queries + first * padded + p * layout.width, padded, count});
    }
  }
}

// delta[row] = chain over k of grad[row][k] * context[row][k]; both in slivers of depth `depth`.
template <class A>
void RunDelta(const A* grad, const A* context, Index depth, Index rows, A* delta) {
  for (Index first = 0; first < rows; first += kTileRows) {
    A sum[kTileRows] = {};
    const A* left = grad + first * depth;
    const A* right = context + first * depth;
    for (Index k = 0; k < depth; ++k) {
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r) sum[r] = std::fma(left[k * kTileRows + r], right[k * kTileRows + r], sum[r]);
    }
    for (Index r = 0; r < std::min<Index>(kTileRows, rows - first); ++r) delta[first + r] = sum[r];
  }
}

template <class A>
BackwardFunctions<A> Functions() {
  return {&RunDelta<A>, &RunScores<A>, &RunKeysAndValues<A>, &RunQueries<A>};
}
BackwardFunctions<float> FunctionsF32() { return Functions<float>(); }
BackwardFunctions<double> FunctionsF64() { return Functions<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
BackwardFunctions<float> backward_functions_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, FunctionsF32)();
}
template <>
BackwardFunctions<double> backward_functions_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, FunctionsF64)();
}

}  // namespace headwise
#endif  // HWY_ONCE
