// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/tensor_blocks.h"

#include <cstring>

namespace headwise {

std::byte* TensorBlocks::allocate(std::size_t bytes) {
  blocks_.push_back(std::make_unique<std::byte[]>(bytes));  // zeros
  return blocks_.back().get();
}

NamedTensor TensorBlocks::rows(const NamedTensor& tensor, Index first, Index count) {
  NamedTensor part = tensor;
  part.shape[0] = count;
  const std::size_t row = tensor.shape[0] == 0 ? 0 : tensor.bytes() / static_cast<std::size_t>(tensor.shape[0]);
  part.data += static_cast<std::size_t>(first) * row;
  return part;
}

NamedTensor TensorBlocks::turned(const NamedTensor& tensor) {
  NamedTensor result = tensor;
  const auto height = static_cast<std::size_t>(tensor.shape[0]), width = static_cast<std::size_t>(tensor.shape[1]);
  result.shape = {tensor.shape[1], tensor.shape[0]};
  std::byte* target = allocate(tensor.bytes());
  const std::size_t item = dtype_bytes(tensor.dtype);
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t column = 0; column < width; ++column) {
      std::memcpy(target + (column * height + row) * item, tensor.data + (row * width + column) * item, item);
    }
  }
  result.data = target;
  return result;
}

NamedTensor TensorBlocks::stacked(std::span<const NamedTensor> parts) {
  NamedTensor result = parts.front();
  std::size_t bytes = 0;
  result.shape[0] = 0;
  for (const NamedTensor& part : parts) {
    bytes += part.bytes();
    result.shape[0] += part.shape[0];
  }
  std::byte* target = allocate(bytes);
  result.data = target;
  for (const NamedTensor& part : parts) {
    if (part.bytes() > 0) std::memcpy(target, part.data, part.bytes());
    target += part.bytes();
  }
  return result;
}

NamedTensor TensorBlocks::zeros(DType dtype, Index count) {
  return {"", dtype, {count}, allocate(static_cast<std::size_t>(count) * dtype_bytes(dtype))};
}

}  // namespace headwise
