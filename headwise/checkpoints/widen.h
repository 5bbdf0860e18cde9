// SPDX-License-Identifier: Apache-2.0
// 16-bit tensors as float32, exactly. Not installed.
#ifndef HEADWISE_CHECKPOINTS_WIDEN_H_
#define HEADWISE_CHECKPOINTS_WIDEN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/tensor/named_tensor.h"

namespace headwise {

// The value of the float16 or bfloat16 with these bits.
float float16_value(std::uint16_t bits);
float bfloat16_value(std::uint16_t bits);

// float32, float16 and bfloat16: every value of theirs is a float32.
bool widens_to_float(DType dtype);

// The same tensors, those of float16 and bfloat16 as float32. The others stay where they are.
class WidenedTensors {
 public:
  explicit WidenedTensors(std::span<const NamedTensor> tensors);
  WidenedTensors(const WidenedTensors&) = delete;
  WidenedTensors& operator=(const WidenedTensors&) = delete;

  std::span<const NamedTensor> tensors() const { return tensors_; }

 private:
  std::vector<NamedTensor> tensors_;
  std::vector<std::vector<float>> widened_;
};

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_WIDEN_H_
