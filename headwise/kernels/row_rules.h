// SPDX-License-Identifier: Apache-2.0
// One query row as the tiles see it: where it stands, which keys it may see, what is added to its scores.
#ifndef HEADWISE_KERNELS_ROW_RULES_H_
#define HEADWISE_KERNELS_ROW_RULES_H_

#include "headwise/kernels/dropout.h"
#include "headwise/kernels/positions.h"

namespace headwise {

// A bias row of any storage type.
struct BiasRow {
  const void* data = nullptr;  // element j at data[j * stride]
  Index stride = 0;
};

template <class A>
struct TileRow {
  Index position = 0;
  Index begin = 0, end = 0;    // keys that the position rules and the length leave
  const bool* mask = nullptr;  // element j at mask[j * mask_stride]
  Index mask_stride = 0;
  BiasRow bias;
  A slope = 0;
  A sink = 0;
  DropoutStream dropout;
};

// What is the same for all rows of a call.
template <class A>
struct TileRules {
  A softcap = 0;  // 0: none
  bool has_mask = false, has_bias = false, has_alibi = false, has_sink = false;
  std::uint32_t dropout_threshold = 0;  // 0: no dropout
  A keep_scale = 1;
  // Adds bias[first..first + count) of a row to scores; -inf hides. Chosen by the bias's storage type.
  void (*add_bias)(const BiasRow& bias, Index first, Index count, A* scores) = nullptr;

  // True when a key inside a row's range may still be hidden.
  bool may_hide() const { return has_mask || has_bias; }
};

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ROW_RULES_H_
