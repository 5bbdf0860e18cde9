// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "headwise/kernels/product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/product_block.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/register_tile-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

template <class A>
struct TotalStore {
  A* total;
  Index stride, rows;
  bool first;
  HWY_INLINE void operator()(int row, int v, Vector<A> value) const {
    if (row >= rows) return;
    const Tag<A> d;
    A* at = total + row * stride + v * kLanes<A>;
    hn::Store(first ? value : hn::Add(hn::Load(d, at), value), d, at);
  }
};

// The last block's sums, on their way out.
template <class A>
struct OutStore {
  const A* total;
  Index stride, rows;
  bool first, add;
  A* out;
  Index out_stride;
  const A* bias;
  HWY_INLINE void operator()(int row, int v, Vector<A> value) const {
    if (row >= rows) return;
    const Tag<A> d;
    const Index column = v * kLanes<A>;
    if (!first) value = hn::Add(hn::Load(d, total + row * stride + column), value);
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + column));
    A* at = out + row * out_stride + column;
    if (add) value = hn::Add(hn::LoadU(d, at), value);
    hn::StoreU(value, d, at);
  }
};

// A panel stays in the nearest cache while all slivers pass over it.
template <class A>
void RunProductBlock(const ProductBlock<A>& block) {
  for (Index p = 0; p < block.layout.panels(); ++p) {
    const Index column = p * block.layout.width;
    const A* panel = block.panels + block.layout.offset(p, block.depth);
    const bool narrow = block.layout.narrow(p);
    for (Index first = 0; first < block.rows; first += kTileRows) {
      const Index count = std::min<Index>(kTileRows, block.rows - first);
      if (block.ahead != nullptr) block.ahead->step();
      const A* slivers = block.slivers + first * block.depth;
      A* total = block.total + first * block.stride + column;
      if (block.out == nullptr) {
        MultiplyPanel<A, 1, kTileRows>(slivers, panel, block.depth, count, narrow,
                                       TotalStore<A>{total, block.stride, count, block.first});
      } else {
        MultiplyPanel<A, 1, kTileRows>(slivers, panel, block.depth, count, narrow,
                                       OutStore<A>{total, block.stride, count, block.first, block.add,
                                                   block.out + first * block.out_stride + column, block.out_stride,
                                                   block.bias == nullptr ? nullptr : block.bias + column});
      }
    }
  }
}

void RunProductBlockF32(const ProductBlock<float>& block) { RunProductBlock<float>(block); }
void RunProductBlockF64(const ProductBlock<double>& block) { RunProductBlock<double>(block); }
Index VectorWidthF32() { return kLanes<float>; }
Index VectorWidthF64() { return kLanes<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

template <>
ProductBlockFunction<float> product_block_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, RunProductBlockF32);
}
template <>
ProductBlockFunction<double> product_block_for(Isa isa) {
  return HEADWISE_FOR_ISA(isa, RunProductBlockF64);
}
template <>
Index product_vector_width<float>(Isa isa) {
  return HEADWISE_FOR_ISA(isa, VectorWidthF32)();
}
template <>
Index product_vector_width<double>(Isa isa) {
  return HEADWISE_FOR_ISA(isa, VectorWidthF64)();
}

}  // namespace headwise
#endif  // HWY_ONCE
