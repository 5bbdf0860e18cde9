// SPDX-License-Identifier: Apache-2.0
// How a block's (maximum, sum, context) joins those of the blocks before it.
#if defined(HEADWISE_KERNELS_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_FOLD_INL_H_
#undef HEADWISE_KERNELS_FOLD_INL_H_
#else
#define HEADWISE_KERNELS_FOLD_INL_H_
#endif

#include <algorithm>

#include "headwise/kernels/forward_tile.h"
#include "headwise/kernels/simd-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// lower half + upper half, down to 128 bits.
template <class D>
HWY_INLINE auto AddHalves(D d, hn::Vec<D> value) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) == 16) {
    return value;
  } else {
    const hn::Half<D> half;
    return AddHalves(half, hn::Add(hn::LowerHalf(half, value), hn::UpperHalf(half, value)));
  }
}

// Sum of 16 lanes by halves: 8, 4, 2, 1.
template <class A>
HWY_INLINE A SumLanes(Vector<A>* lanes) {
#pragma GCC unroll 3
  for (int half = kVectorsPer16<A> / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int v = 0; v < half; ++v) lanes[v] = hn::Add(lanes[v], lanes[v + half]);
  }
  auto last = AddHalves(Tag<A>(), lanes[0]);
  if constexpr (sizeof(A) == 4) last = hn::Add(last, hn::Shuffle1032(last));
  return hn::GetLane(last) + hn::ExtractLane(last, 1);
}

// Per row of a tile: what the context so far and the block's context are multiplied by; skip: the block adds nothing.
template <class A>
struct FoldFactors {
  alignas(64) A keep[kForwardRows];
  alignas(64) A join[kForwardRows];
  bool skip[kForwardRows];

  // The block's own context is stored as it is.
  void store_all(const A* block_sum, Index rows) {
    for (Index r = 0; r < rows; ++r) {
      keep[r] = 0;
      join[r] = 1;
      skip[r] = block_sum[r] == 0;
    }
  }
};

// Running maximum and sum of the rows of a tile; a sum of 0 means that nothing was folded in yet.
template <class A>
struct RowState {
  A* max;
  A* sum;

  HWY_NOINLINE void fold(const TileRules<A>& rules, const TileRow<A>* row, Index rows, const A* block_max,
                         const A* block_sum, FoldFactors<A>& factors) {
    const Tag<A> d;
    for (Index r = 0; r < rows; ++r) {
      factors.skip[r] = block_sum[r] == 0;
      factors.keep[r] = factors.join[r] = 0;
      if (factors.skip[r]) continue;
      if (sum[r] == 0 && rules.has_sink) {
        max[r] = row[r].sink + A{0};
        sum[r] = 1;
      }
      if (sum[r] == 0) {
        factors.keep[r] = -std::numeric_limits<A>::infinity();
        max[r] = block_max[r];
        continue;
      }
      const A joined = std::max(max[r], block_max[r]);
      factors.keep[r] = max[r] - joined;
      factors.join[r] = block_max[r] - joined;
      max[r] = joined;
    }
    for (Index r = rows; r < round_up(rows, kLanes<A>); ++r) factors.keep[r] = factors.join[r] = 0;
    for (Index r = 0; r < rows; r += kLanes<A>) {
      hn::Store(Exp<A>(hn::Load(d, factors.keep + r)), d, factors.keep + r);
      hn::Store(Exp<A>(hn::Load(d, factors.join + r)), d, factors.join + r);
    }
    for (Index r = 0; r < rows; ++r) {
      if (!factors.skip[r]) sum[r] = std::fma(sum[r], factors.keep[r], block_sum[r] * factors.join[r]);
    }
  }
};

// Stores a register tile of a block's context: context = context * keep + block * join.
template <class A>
struct FoldStore {
  A* context;
  Index stride;
  const A* keep;
  const A* join;
  const bool* skip;
  Index rows;

  HWY_INLINE void operator()(int row, int v, Vector<A> value) const {
    if (row >= rows || skip[row]) return;
    const Tag<A> d;
    A* at = context + row * stride + v * kLanes<A>;
    const auto block = hn::Mul(hn::Add(value, hn::Zero(d)), hn::Set(d, join[row]));
    hn::Store(hn::MulAdd(hn::Load(d, at), hn::Set(d, keep[row]), block), d, at);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#endif  // per-target include guard
