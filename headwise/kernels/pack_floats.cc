// SPDX-License-Identifier: Apache-2.0
// A product with 0 is NaN exactly for inf and NaN: sums of such products tell in the end whether all was finite.
#include "headwise/kernels/pack_floats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/kernels/pack_floats.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "headwise/kernels/simd-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

using Floats = Tag<float>;
using Quad = hn::FixedTag<float, 4>;

// The 128-bit blocks of a vector go to to, to + step, ...
template <class D>
HWY_INLINE void StoreBlocks(D d, hn::Vec<D> value, float* to, Index step) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(value, d, to);
  } else {
    const hn::Half<D> half;
    StoreBlocks(half, hn::LowerHalf(half, value), to, step);
    StoreBlocks(half, hn::UpperHalf(half, value), to + static_cast<Index>(hn::MaxLanes(half)) / 4 * step, step);
  }
}

// Four columns, as many k as a vector has lanes: each block of four k is turned in place.
template <class D>
HWY_INLINE hn::Vec<D> TransposeQuad(D d, const FloatPacking& call, const float* from, float* to, hn::Vec<D> flags) {
  const hn::RepartitionToWide<D> wide;
  const auto factor = hn::Set(d, call.factor);
  const auto r0 = hn::Mul(hn::LoadU(d, from), factor), r1 = hn::Mul(hn::LoadU(d, from + call.stride), factor);
  const auto r2 = hn::Mul(hn::LoadU(d, from + 2 * call.stride), factor);
  const auto r3 = hn::Mul(hn::LoadU(d, from + 3 * call.stride), factor);
  const auto zero = hn::Zero(d);
  flags = hn::MulAdd(r0, zero, hn::MulAdd(r1, zero, hn::MulAdd(r2, zero, hn::MulAdd(r3, zero, flags))));
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  const Index step = 4 * call.width;
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), to, step);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), to + call.width, step);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), to + 2 * call.width, step);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), to + 3 * call.width, step);
  return flags;
}

HWY_INLINE float OneByOne(const FloatPacking& call, Index c, Index k, Index first, float flag) {
  const float value = call.from[first] * call.factor;
  call.to[k * call.width + c] = value;
  return flag + value * 0.0F;
}

bool TransposeFloats(const FloatPacking& call) {
  const Floats d;
  const Quad quad;
  constexpr Index kStep = kLanes<float>;
  auto flags = hn::Zero(d);
  auto quad_flags = hn::Zero(quad);
  float flag = 0;
  Index c = 0;
  for (; c + 4 <= call.count; c += 4) {
    const float* from = call.from + c * call.stride;
    float* to = call.to + c;
    Index k = 0;
    for (; k + kStep <= call.depth; k += kStep) flags = TransposeQuad(d, call, from + k, to + k * call.width, flags);
    for (; k + 4 <= call.depth; k += 4) {
      quad_flags = TransposeQuad(quad, call, from + k, to + k * call.width, quad_flags);
    }
    for (; k < call.depth; ++k) {
      for (Index n = c; n < c + 4; ++n) flag = OneByOne(call, n, k, n * call.stride + k, flag);
    }
  }
  for (; c < call.count; ++c) {
    for (Index k = 0; k < call.depth; ++k) flag = OneByOne(call, c, k, c * call.stride + k, flag);
  }
  return hn::GetLane(hn::SumOfLanes(d, flags)) == 0 && hn::GetLane(hn::SumOfLanes(quad, quad_flags)) == 0 && flag == 0;
}

bool CopyFloats(const FloatPacking& call) {
  const Floats d;
  const Quad quad;
  constexpr Index kStep = kLanes<float>;
  const auto factor = hn::Set(d, call.factor);
  const auto quad_factor = hn::Set(quad, call.factor);
  auto flags = hn::Zero(d);
  auto quad_flags = hn::Zero(quad);
  float flag = 0;
  for (Index k = 0; k < call.depth; ++k) {
    const float* from = call.from + k * call.stride;
    float* to = call.to + k * call.width;
    Index c = 0;
    for (; c + kStep <= call.count; c += kStep) {
      const auto value = hn::Mul(hn::LoadU(d, from + c), factor);
      flags = hn::MulAdd(value, hn::Zero(d), flags);
      hn::StoreU(value, d, to + c);
    }
    for (; c + 4 <= call.count; c += 4) {
      const auto value = hn::Mul(hn::LoadU(quad, from + c), quad_factor);
      quad_flags = hn::MulAdd(value, hn::Zero(quad), quad_flags);
      hn::StoreU(value, quad, to + c);
    }
    for (; c < call.count; ++c) flag = OneByOne(call, c, k, k * call.stride + c, flag);
  }
  return hn::GetLane(hn::SumOfLanes(d, flags)) == 0 && hn::GetLane(hn::SumOfLanes(quad, quad_flags)) == 0 && flag == 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#if HWY_ONCE
#include "headwise/kernels/dispatch.h"

namespace headwise {

FloatPackingFunctions float_packing_for(Isa isa) {
  return {HEADWISE_FOR_ISA(isa, TransposeFloats), HEADWISE_FOR_ISA(isa, CopyFloats)};
}

}  // namespace headwise
#endif  // HWY_ONCE
