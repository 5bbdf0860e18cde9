// SPDX-License-Identifier: Apache-2.0
// Packs key blocks of a problem's keys and values for the tiles.
#ifndef HEADWISE_KERNELS_KEY_VALUE_PACKING_H_
#define HEADWISE_KERNELS_KEY_VALUE_PACKING_H_

#include "headwise/kernels/packed_store.h"
#include "headwise/runtime/scratch.h"

namespace headwise {

// Room for `groups` groups of `blocks` blocks, taken from a frame; contents unspecified.
template <class A>
PackedStore<A> take_store(ScratchFrame& frame, Index groups, Index first_block, Index blocks, Index head_dim,
                          Index v_head_dim, const TileShape& shape) {
  PackedStore<A> store;
  store.first_block = first_block;
  store.blocks = blocks;
  store.head_dim = head_dim;
  store.v_head_dim = v_head_dim;
  store.padded_v = PanelLayout{v_head_dim, shape.width}.padded();
  store.keys = frame.take<A>(groups * blocks * store.keys_per_block());
  store.values = frame.take<A>(groups * blocks * store.values_per_block());
  store.keys_finite = frame.take<bool>(groups * blocks);
  store.values_finite = frame.take<bool>(groups * blocks);
  return store;
}

// Keys of one head as a left-to-right panel source: (head_dim, key), and as rows: (key, head_dim).
template <class T>
Matrix<T> columns_of(const TensorView<const T, 2>& rows, Index begin, Index end) {
  return {rows.data() + begin * rows.stride(0), rows.size(1), end - begin, rows.stride(1), rows.stride(0)};
}
template <class T>
Matrix<T> rows_of(const TensorView<const T, 2>& rows, Index begin, Index end) {
  return {rows.data() + begin * rows.stride(0), end - begin, rows.size(1), rows.stride(0), rows.stride(1)};
}

// Packs keys [256 block, ..) below `end` of one head. keys, values: (seq_kv, head_dim), (seq_kv, v_head_dim).
template <class T, class A>
void pack_block(const TensorView<const T, 2>& keys, const TensorView<const T, 2>& values, Index block, Index end,
                const TileShape& shape, const PackedStore<A>& store, Index group) {
  const Index first = block * kKeyBlock, last = std::min(first + kKeyBlock, end);
  const Index at = group * store.blocks + block - store.first_block;
  const PanelLayout over_keys{round_up(last - first, shape.width), shape.width};
  const PanelLayout over_width{store.v_head_dim, shape.width};
  store.keys_finite[at] =
      pack_panels(columns_of(keys, first, last), over_keys, store.head_dim, store.keys + at * store.keys_per_block());
  store.values_finite[at] =
      pack_panels(rows_of(values, first, last), over_width, kKeyBlock, store.values + at * store.values_per_block());
}

// Copies block `block` of group `from_group` of a store of another type into group `group` of `store`, exactly.
template <class T, class A>
void widen_block(const PackedStore<T>& from, Index from_group, Index block, const PackedStore<A>& store, Index group) {
  const Index source = from_group * from.blocks + block - from.first_block;
  const Index at = group * store.blocks + block - store.first_block;
  store.keys_finite[at] = from.keys_finite[source];
  store.values_finite[at] = from.values_finite[source];
  const T* keys = from.keys + source * from.keys_per_block();
  const T* values = from.values + source * from.values_per_block();
  A* to_keys = store.keys + at * store.keys_per_block();
  A* to_values = store.values + at * store.values_per_block();
  for (Index n = 0; n < store.keys_per_block(); ++n) to_keys[n] = widen<A>(keys[n]);
  for (Index n = 0; n < store.values_per_block(); ++n) to_values[n] = widen<A>(values[n]);
}

}  // namespace headwise

#endif  // HEADWISE_KERNELS_KEY_VALUE_PACKING_H_
