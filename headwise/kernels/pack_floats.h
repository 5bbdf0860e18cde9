// SPDX-License-Identifier: Apache-2.0
// The two inner loops of packing on vectors, for float. What they write depends on no instruction set.
#ifndef HEADWISE_KERNELS_PACK_FLOATS_H_
#define HEADWISE_KERNELS_PACK_FLOATS_H_

#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// to[k * width + c] = factor times a float of the source, for c < count and k < depth; each product is rounded once.
struct FloatPacking {
  const float* from = nullptr;
  Index stride = 0;  // between columns c when transposing, between rows k when copying; the other stride is 1
  Index count = 0, depth = 0;
  float factor = 1;
  float* to = nullptr;
  Index width = 0;
};

// True when every product is finite.
using FloatPackingFunction = bool (*)(const FloatPacking&);
struct FloatPackingFunctions {
  FloatPackingFunction transpose = nullptr;  // from[c * stride + k]
  FloatPackingFunction copy = nullptr;       // from[k * stride + c]
};
// `isa` must be one with vectors.
FloatPackingFunctions float_packing_for(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_PACK_FLOATS_H_
