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

// A panel stays in the nearest cache while all slivers pass over it.
template <class A>
void RunProductBlock(const ProductBlock<A>& block) {
  for (Index p = 0; p < block.layout.panels(); ++p) {
    const A* panel = block.panels + block.layout.offset(p, block.depth);
    for (Index first = 0; first < block.rows; first += kTileRows) {
      const Index count = std::min<Index>(kTileRows, block.rows - first);
      const TotalStore<A> store{block.total + first * block.stride + p * block.layout.width, block.stride, count,
                                block.first};
      MultiplyPanel<A, 1, kTileRows>(block.slivers + first * block.depth, panel, block.depth, count,
                                     block.layout.narrow(p), store);
    }
  }
}

void RunProductBlockF32(const ProductBlock<float>& block) { RunProductBlock<float>(block); }
void RunProductBlockF64(const ProductBlock<double>& block) { RunProductBlock<double>(block); }

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

}  // namespace headwise
#endif  // HWY_ONCE
