// SPDX-License-Identifier: Apache-2.0
// A dense tensor whose type and rank are known only at run time: what files, layers and Python exchange.
#ifndef HEADWISE_TENSOR_NAMED_TENSOR_H_
#define HEADWISE_TENSOR_NAMED_TENSOR_H_

#include <cstddef>
#include <string>
#include <vector>

#include "headwise/tensor/dtype.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// Borrowed bytes in C order, little endian; they may be unaligned (a file maps as it lies).
struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<Index> shape;
  const std::byte* data = nullptr;

  Index elements() const {
    Index count = 1;
    for (Index extent : shape) count *= extent;
    return count;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * dtype_bytes(dtype); }
};

}  // namespace headwise

#endif  // HEADWISE_TENSOR_NAMED_TENSOR_H_
