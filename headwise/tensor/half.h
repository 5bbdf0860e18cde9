// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16 as storage: widened exactly, rounded to nearest even. No arithmetic is done in them.
#ifndef HEADWISE_TENSOR_HALF_H_
#define HEADWISE_TENSOR_HALF_H_

#include <bit>
#include <cstdint>
#include <type_traits>

namespace headwise {

struct float16 {
  std::uint16_t bits = 0;
};
struct bfloat16 {
  std::uint16_t bits = 0;
};

// The type that sums, maxima and probabilities of T are computed in.
template <class T>
using Accumulated = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline float to_float(bfloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

inline float to_float(float16 value) {
  // The exponent is moved by multiplying with 2^112, which also normalises subnormals; inf and NaN are put right after.
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7FFFU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t special = (value.bits & 0x7C00U) == 0x7C00U ? 0x7F800000U : 0U;
  return std::bit_cast<float>(sign | special | std::bit_cast<std::uint32_t>(scaled));
}

inline bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

inline float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // rounds to 65536 or more
  if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 leaves the rounded mantissa in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U))};
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U) - 0x38000000U;
  return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
}

template <class A, class T>
inline A widen(T value) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return static_cast<A>(to_float(value));
  } else {
    return static_cast<A>(value);
  }
}

template <class T, class A>
inline T narrow(A value) {
  if constexpr (std::is_same_v<T, float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace headwise

#endif  // HEADWISE_TENSOR_HALF_H_
