// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/widen.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace headwise {

float float16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero, or subnormal: fraction * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign == 0 ? magnitude : -magnitude;
  }
  // Infinity and NaN keep their exponent of all ones; the others move from bias 15 to bias 127.
  const std::uint32_t widened = exponent == 0x1F ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

float bfloat16_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

bool widens_to_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

WidenedTensors::WidenedTensors(std::span<const NamedTensor> tensors) : tensors_(tensors.begin(), tensors.end()) {
  for (NamedTensor& tensor : tensors_) {
    if (tensor.dtype != DType::kFloat16 && tensor.dtype != DType::kBFloat16) continue;
    const auto value = tensor.dtype == DType::kFloat16 ? float16_value : bfloat16_value;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.data + 2 * i, 2);
      values[i] = value(bits);
    }
    widened_.push_back(std::move(values));
    tensor.dtype = DType::kFloat32;
    tensor.data = reinterpret_cast<const std::byte*>(widened_.back().data());
  }
}

}  // namespace headwise
