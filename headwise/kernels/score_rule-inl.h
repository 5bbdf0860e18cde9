// SPDX-License-Identifier: Apache-2.0
// What happens to a row of scores between the product and the softmax: softcap, ALiBi, bias, mask, dropout.
#if defined(HEADWISE_KERNELS_SCORE_RULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_SCORE_RULE_INL_H_
#undef HEADWISE_KERNELS_SCORE_RULE_INL_H_
#else
#define HEADWISE_KERNELS_SCORE_RULE_INL_H_
#endif

#include <cmath>
#include <limits>

#include "headwise/kernels/block_columns.h"
#include "headwise/kernels/simd-inl.h"

#if HEADWISE_HAS_SIMD

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

// scores = cap * tanh(scores / cap) on 16-aligned columns around `own`. `derivative`, where given, gets
// d(capped)/d(score).
template <class A>
HWY_NOINLINE void ApplySoftcap(A cap, const RowColumns& own, A* scores, A* derivative) {
  const Tag<A> d;
  const auto inverse = hn::Set(d, A{1} / cap);
  for (Index j = own.begin / kSumLanes * kSumLanes; j < own.end; j += kLanes<A>) {
    const auto capped = hn::Mul(hn::Set(d, cap), Tanh<A>(hn::Mul(hn::Load(d, scores + j), inverse)));
    hn::Store(capped, d, scores + j);
    if (derivative == nullptr) continue;
    const auto ratio = hn::Mul(capped, inverse);
    hn::Store(hn::NegMulAdd(ratio, ratio, hn::Set(d, A{1})), d, derivative + j);
  }
}

template <class A>
HWY_NOINLINE void ApplyAlibi(const TileRow<A>& row, Index start, const RowColumns& own, A* scores) {
  for (Index j = own.begin; j < own.end; ++j) {
    const auto distance = static_cast<A>(std::abs(row.position - (start + j)));
    scores[j] = std::fma(-row.slope, distance, scores[j]);
  }
}

template <class A>
HWY_INLINE void ApplyMask(const TileRow<A>& row, Index start, const RowColumns& own, A* scores) {
  const bool* mask = row.mask + start * row.mask_stride;
  for (Index j = own.begin; j < own.end; ++j) {
    scores[j] = mask[j * row.mask_stride] ? scores[j] : -std::numeric_limits<A>::infinity();
  }
}

// All rules of one row, in the order of the contract. Hidden keys inside `own` end as -inf.
template <class A>
HWY_INLINE void ApplyRules(const TileRules<A>& rules, const TileRow<A>& row, Index start, const RowColumns& own,
                           A* scores, A* derivative) {
  if (rules.softcap > 0) ApplySoftcap<A>(rules.softcap, own, scores, derivative);
  if (rules.has_alibi) ApplyAlibi<A>(row, start, own, scores);
  if (rules.has_bias) rules.add_bias(row.bias, start + own.begin, own.end - own.begin, scores + own.begin);
  if (rules.has_mask) ApplyMask<A>(row, start, own, scores);
}

template <class A>
HWY_INLINE void MarkVisible(const A* scores, const RowColumns& own, bool* visible) {
  for (Index j = own.begin; j < own.end; ++j) visible[j] = scores[j] != -std::numeric_limits<A>::infinity();
}

using TagU32 = hn::ScalableTag<std::uint32_t>;
using VectorU32 = hn::Vec<TagU32>;

// low and high halves of value * multiplier, lane by lane.
HWY_INLINE void MultiplyWide(VectorU32 value, VectorU32 multiplier, VectorU32& low, VectorU32& high) {
  const TagU32 d;
  const hn::RepartitionToWide<TagU32> wide;
  const auto even = hn::MulEven(value, multiplier);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, value))), multiplier);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// The 16-bit draws of the 128 keys of one aligned run, draws[key % 128]. run = first key / 128 * 16.
HWY_NOINLINE inline void DrawRun(const DropoutStream& stream, Index position, Index run, std::uint32_t* draws) {
  const TagU32 d;
  constexpr int kWide = kLanes<std::uint32_t>;
  const auto query = static_cast<std::uint64_t>(position);
  const auto first = static_cast<std::uint64_t>(run);
  const auto multiplier0 = hn::Set(d, 0xD2511F53U), multiplier1 = hn::Set(d, 0xCD9E8D57U);
  for (int lane = 0; lane < kSumLanes; lane += kWide) {
    auto c0 = hn::Add(hn::Set(d, static_cast<std::uint32_t>(first) + lane), hn::Iota(d, 0));
    auto c1 = hn::Set(d, static_cast<std::uint32_t>(first >> 32));
    auto c2 = hn::Set(d, static_cast<std::uint32_t>(query));
    auto c3 = hn::Set(d, static_cast<std::uint32_t>(query >> 32));
    std::uint32_t key0 = stream.key[0], key1 = stream.key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      VectorU32 low0, high0, low1, high1;
      MultiplyWide(c0, multiplier0, low0, high0);
      MultiplyWide(c2, multiplier1, low1, high1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1));
      c3 = low0;
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    const auto mask = hn::Set(d, 0xFFFFU);
    const VectorU32 words[4] = {c0, c1, c2, c3};
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      hn::Store(hn::And(words[w], mask), d, draws + 32 * w + lane);
      hn::Store(hn::ShiftRight<16>(words[w]), d, draws + 32 * w + 16 + lane);
    }
  }
}

// Draws of every key of a block that `own` touches; the block starts at an aligned run.
HWY_INLINE void DrawBlock(const DropoutStream& stream, Index position, Index start, const RowColumns& own,
                          std::uint32_t* draws) {
  const Index offset = stream.position_offset;
  for (Index run = own.begin / 128; run * 128 < own.end; ++run) {
    DrawRun(stream, position + offset, (start + offset + run * 128) / 8, draws + run * 128);
  }
}

// Lanes [j, j + lanes) whose draw is at least the threshold keep their value, the others become 0.
template <class A>
HWY_INLINE Vector<A> KeepDrawn(Vector<A> value, const std::uint32_t* draws, std::uint32_t threshold) {
  const Tag<A> d;
  if constexpr (sizeof(A) == 4) {
    const TagU32 du;
    const auto dropped = hn::Lt(hn::BitCast(hn::RebindToSigned<TagU32>(), hn::Load(du, draws)),
                                hn::Set(hn::RebindToSigned<TagU32>(), static_cast<std::int32_t>(threshold)));
    return hn::IfThenZeroElse(hn::RebindMask(d, dropped), value);
  } else {
    alignas(64) A lanes[kLanes<A>];
    hn::Store(value, d, lanes);
    for (int lane = 0; lane < kLanes<A>; ++lane) lanes[lane] = draws[lane] < threshold ? A{0} : lanes[lane];
    return hn::Load(d, lanes);
  }
}

// weights[j] = 0 where dropout drops the key.
template <class A>
HWY_NOINLINE void DropWeights(const TileRules<A>& rules, const TileRow<A>& row, Index start, const RowColumns& own,
                              A* weights) {
  alignas(64) std::uint32_t draws[kKeyBlock];
  DrawBlock(row.dropout, row.position, start, own, draws);
  const Tag<A> d;
  for (Index j = own.begin / kSumLanes * kSumLanes; j < own.end; j += kLanes<A>) {
    hn::Store(KeepDrawn<A>(hn::Load(d, weights + j), draws + j, rules.dropout_threshold), d, weights + j);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_HAS_SIMD

#endif  // per-target include guard
