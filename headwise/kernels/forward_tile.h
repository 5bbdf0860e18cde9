// SPDX-License-Identifier: Apache-2.0
// Forward of up to kForwardRows query rows that share their keys and values: scores, softmax and context, block by
// block.
#ifndef HEADWISE_KERNELS_FORWARD_TILE_H_
#define HEADWISE_KERNELS_FORWARD_TILE_H_

#include "headwise/kernels/panels.h"
#include "headwise/kernels/read_ahead.h"
#include "headwise/kernels/row_rules.h"
#include "headwise/runtime/isa.h"

namespace headwise {

// Rows of one tile: a multiple of every register tile; 96 rows of scores against one key block are 104 KiB.
inline constexpr Index kForwardRows = 96;
// Row stride of a tile of scores: a key block and one cache line, so that rows do not share cache sets.
inline constexpr Index kTileStride = kKeyBlock + 16;

// Packed keys and values of one (batch, kv head); block n begins n times the block size into each.
template <class A>
struct PackedKeyValues {
  const A* keys = nullptr;              // per block: panels over the block's keys, depth head_dim
  const A* values = nullptr;            // per block: panels over v_head_dim, depth kKeyBlock
  const bool* values_finite = nullptr;  // one per block
  const bool* keys_finite = nullptr;    // one per block
  Index head_dim = 0, v_head_dim = 0;
};

template <class A>
struct ForwardTile {
  TileRules<A> rules;
  PackedKeyValues<A> packed;
  Index first_block = 0, last_block = 0;  // key blocks to visit
  Index rows = 0;
  const TileRow<A>* row = nullptr;  // (rows,)
  const A* queries = nullptr;       // slivers, scaled
  A* scores = nullptr;              // scratch, kForwardRows x kTileStride
  bool* visible = nullptr;          // scratch, kForwardRows x kKeyBlock
  // With `resume`, context, max and sum hold what earlier keys left and are folded on.
  bool resume = false;
  // Results. With `partial`, block n of the tile (counted from first_block) writes its own unfolded results at index n.
  bool partial = false;
  A* context = nullptr;  // (rows, padded v_head_dim), not yet divided by the sum; partial: (blocks, rows, padded)
  A* max = nullptr;      // (kForwardRows,); partial: (blocks, kForwardRows)
  A* sum = nullptr;      // as max
  // Taps, or null: exp(score - block maximum) of every key, before dropout, and the block maxima.
  A* exps = nullptr;  // (rows, exps_stride), index: key - first_block * kKeyBlock
  Index exps_stride = 0;
  A* block_max = nullptr;      // (blocks, kForwardRows)
  ReadAhead* ahead = nullptr;  // what to fetch meanwhile, or null
};

template <class A>
using ForwardTileFunction = void (*)(const ForwardTile<A>&);

// The body for an instruction set that this build and machine have (not kCanonical).
template <class A>
ForwardTileFunction<A> forward_tile_for(Isa isa);

// Folds block partials (as ForwardTile writes them) left to right, as the tile itself would have done.
template <class A>
struct PartialFold {
  TileRules<A> rules;
  Index rows = 0, blocks = 0, padded = 0;
  const TileRow<A>* row = nullptr;
  const A* partial_context = nullptr;  // (blocks, rows, padded)
  const A* partial_max = nullptr;      // (blocks, kForwardRows)
  const A* partial_sum = nullptr;
  A* context = nullptr;  // (rows, padded)
  A* max = nullptr;      // (kForwardRows,)
  A* sum = nullptr;
};
template <class A>
using PartialFoldFunction = void (*)(const PartialFold<A>&);
template <class A>
PartialFoldFunction<A> partial_fold_for(Isa isa);

template <class A>
TileShape tile_shape_for(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_FORWARD_TILE_H_
