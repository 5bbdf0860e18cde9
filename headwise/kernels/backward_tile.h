// SPDX-License-Identifier: Apache-2.0
// Backward of up to one query block of one head against one key block: five products, no atomics.
#ifndef HEADWISE_KERNELS_BACKWARD_TILE_H_
#define HEADWISE_KERNELS_BACKWARD_TILE_H_

#include "headwise/kernels/forward_tile.h"

namespace headwise {

// One packed key block. Panels as in panels.h.
template <class A>
struct BackwardKeys {
  const A* keys_by_key = nullptr;    // panels over keys, depth head_dim: right operand of the scores
  const A* values_by_key = nullptr;  // panels over keys, depth v_head_dim: right operand of the weights' gradient
  const A* keys_by_width = nullptr;  // panels over head_dim, depth kKeyBlock: right operand of grad_queries
  bool keys_finite = true;
};

// One packed query block of one head.
template <class A>
struct BackwardQueries {
  const A* query_slivers = nullptr;  // scaled; left operand of the scores
  const A* grad_slivers = nullptr;   // grad_context; left operand of the weights' gradient
  const A* query_panels = nullptr;   // scaled; panels over head_dim, depth kQueryBlock: right operand of grad_keys
  const A* grad_panels = nullptr;    // panels over v_head_dim, depth kQueryBlock: right operand of grad_values
  const TileRow<A>* row = nullptr;   // (rows,)
  const A* max = nullptr;            // (rows,); 0 for a row that sees no key
  const A* inverse_sum = nullptr;    // (rows,); 0 for a row that sees no key
  const A* delta = nullptr;          // (rows,): sum of grad_context * context
  Index rows = 0;
  bool finite = true;  // queries and grad_context
};

template <class A>
struct BackwardTile {
  TileRules<A> rules;
  Index head_dim = 0, v_head_dim = 0;
  Index block = 0;  // key block
  BackwardKeys<A> keys;
  BackwardQueries<A> queries;
  // Scratch: kQueryBlock x kTileStride each.
  A* weights = nullptr;
  A* grad_scores = nullptr;
  A* derivative = nullptr;  // only with softcap
  bool* visible = nullptr;  // kQueryBlock x kKeyBlock
  // Added to; a row of each is padded to whole panels. grad_queries is not scaled yet.
  A* grad_queries = nullptr;  // (rows, padded head_dim)
  A* grad_keys = nullptr;     // (kKeyBlock, padded head_dim)
  A* grad_values = nullptr;   // (kKeyBlock, padded v_head_dim)
  double* alibi = nullptr;    // (rows,), or null: sum of grad_score * distance
  // Where given, grad_scores (before the softcap's factor) are handed over row by row instead of being multiplied on.
  void (*bias_tap)(void* context, Index row, Index first_key, Index count, const A* grad_scores,
                   const bool* visible) = nullptr;
  void* bias_context = nullptr;
  ReadAhead* ahead = nullptr;  // what to fetch meanwhile, or null
};

// Computes weights and grad_scores and runs the three products that add to the gradients. grad_queries of one head
// must be added to in the order of key blocks: `run` is split so that a caller can wait in between.
template <class A>
struct BackwardFunctions {
  // delta (rows,) = sum over k of grad * context, both in slivers of depth `depth`.
  void (*delta)(const A* grad, const A* context, Index depth, Index rows, A* delta) = nullptr;
  bool (*scores)(const BackwardTile<A>&) = nullptr;  // false: no key of the block is visible to any row
  void (*keys_and_values)(const BackwardTile<A>&) = nullptr;
  void (*queries)(const BackwardTile<A>&) = nullptr;
};

template <class A>
BackwardFunctions<A> backward_functions_for(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_BACKWARD_TILE_H_
