// SPDX-License-Identifier: Apache-2.0
// Tensors cut, stacked and turned, byte for byte, whatever their type. Not installed.
#ifndef HEADWISE_CHECKPOINTS_TENSOR_BLOCKS_H_
#define HEADWISE_CHECKPOINTS_TENSOR_BLOCKS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "headwise/tensor/named_tensor.h"

namespace headwise {

// Holds what had to be copied: results live as long as this does and as their sources do. Names are those of the
// (first) source.
class TensorBlocks {
 public:
  // Rows [first, first + count) of a tensor of one or two axes; no copy.
  static NamedTensor rows(const NamedTensor& tensor, Index first, Index count);
  // (a, b) -> (b, a).
  NamedTensor turned(const NamedTensor& tensor);
  // One above the other: the same type, rank and columns.
  NamedTensor stacked(std::span<const NamedTensor> parts);
  // (count,) zeros of the type.
  NamedTensor zeros(DType dtype, Index count);

 private:
  std::byte* allocate(std::size_t bytes);

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_TENSOR_BLOCKS_H_
