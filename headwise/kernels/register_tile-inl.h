// SPDX-License-Identifier: Apache-2.0
// The register tile under everything: rows x (vectors of columns) accumulators over a chain of fused multiply-adds.
//
// AVX-512: 12 x 32 floats = 24 accumulators of 32 registers; AVX2: 6 x 16 = 12 of 16; NEON: 12 x 8 = 24 of 32. Each has
// more than the 8 independent chains that two multiply-adds a cycle at 4 cycles latency need, and every loop over the
// accumulators is unrolled whole: GCC keeps the array in registers only then (tests/spill_check.py looks).
#if defined(HEADWISE_KERNELS_REGISTER_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_REGISTER_TILE_INL_H_
#undef HEADWISE_KERNELS_REGISTER_TILE_INL_H_
#else
#define HEADWISE_KERNELS_REGISTER_TILE_INL_H_
#endif

#include "headwise/kernels/simd-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

inline constexpr int kTileRows = HWY_TARGET == HWY_AVX2 ? 6 : 12;
inline constexpr int kTileVectors = 2;
template <class A>
inline constexpr int kPanelWidth = kTileVectors* kLanes<A>;

// C[row][column] = chain over k of A[row][k] * B[k][column], from 0, ascending.
// a: element (row, k) at a[row * kRowStep + k * kDepthStep]; b: kVectors vectors of a panel that is kPanelVectors wide.
// Each accumulator is handed to store(row, vector index, value) once.
template <class A, int kRows, int kVectors, int kPanelVectors, Index kRowStep, Index kDepthStep, class Store>
HWY_INLINE void MultiplyTile(const A* HWY_RESTRICT a, const A* HWY_RESTRICT b, Index depth, const Store& store) {
  const Tag<A> d;
  Vector<A> sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[row][v] = hn::Zero(d);
  }
  for (Index k = 0; k < depth; ++k) {
    Vector<A> right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = hn::Load(d, b + v * kLanes<A>);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const Vector<A> left = hn::Set(d, a[row * kRowStep]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[row][v] = hn::MulAdd(left, right[v], sum[row][v]);
    }
    a += kDepthStep;
    b += kPanelVectors * kLanes<A>;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(row, v, sum[row][v]);
  }
}

// Runs the tile with as few rows as `rows` needs: all, 8, 4 or 1. Rows beyond `rows` are computed from whatever lies
// there and never stored, so `store` must skip them.
template <class A, int kVectors, int kPanelVectors, Index kRowStep, Index kDepthStep, class Store>
HWY_NOINLINE void MultiplyRows(const A* a, const A* b, Index depth, Index rows, const Store& store) {
  if (rows > 8 || (kTileRows < 8 && rows > 4)) {
    MultiplyTile<A, kTileRows, kVectors, kPanelVectors, kRowStep, kDepthStep>(a, b, depth, store);
  } else if (kTileRows > 8 && rows > 4) {
    MultiplyTile<A, 8, kVectors, kPanelVectors, kRowStep, kDepthStep>(a, b, depth, store);
  } else if (rows > 1) {
    MultiplyTile<A, 4, kVectors, kPanelVectors, kRowStep, kDepthStep>(a, b, depth, store);
  } else {
    MultiplyTile<A, 1, kVectors, kPanelVectors, kRowStep, kDepthStep>(a, b, depth, store);
  }
}

// A panel is kTileVectors wide, the last one of a matrix 1 where that is enough.
template <class A, Index kRowStep, Index kDepthStep, class Store>
HWY_INLINE void MultiplyPanel(const A* a, const A* b, Index depth, Index rows, bool narrow, const Store& store) {
  if (narrow) {
    MultiplyRows<A, 1, 1, kRowStep, kDepthStep>(a, b, depth, rows, store);
  } else {
    MultiplyRows<A, kTileVectors, kTileVectors, kRowStep, kDepthStep>(a, b, depth, rows, store);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#endif  // per-target include guard
