// SPDX-License-Identifier: Apache-2.0
// Packed keys and values of several (batch, kv head) groups, block by block: made for one call, or kept by a cache.
#ifndef HEADWISE_KERNELS_PACKED_STORE_H_
#define HEADWISE_KERNELS_PACKED_STORE_H_

#include "headwise/kernels/forward_tile.h"

namespace headwise {

// Group (b, g) is number b * kv_heads + g. Each group has room for `blocks` key blocks from block `first_block` on.
template <class A>
struct PackedStore {
  A* keys = nullptr;
  A* values = nullptr;
  bool* keys_finite = nullptr;
  bool* values_finite = nullptr;
  Index blocks = 0, first_block = 0;
  Index head_dim = 0, v_head_dim = 0, padded_v = 0;

  Index keys_per_block() const { return kKeyBlock * head_dim; }
  Index values_per_block() const { return kKeyBlock * padded_v; }

  // Pointers are shifted so that a tile may count blocks from 0.
  PackedKeyValues<A> group(Index number) const {
    const Index first = number * blocks - first_block;
    return {keys + first * keys_per_block(),
            values + first * values_per_block(),
            values_finite + first,
            keys_finite + first,
            head_dim,
            v_head_dim};
  }
};

}  // namespace headwise

#endif  // HEADWISE_KERNELS_PACKED_STORE_H_
