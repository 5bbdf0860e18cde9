// SPDX-License-Identifier: Apache-2.0
// Backward of the heads that share one kv head of one batch entry. Key blocks are the units of work; those of one group
// may run on several threads, in any order of time: grad_queries is added to in the order of key blocks by ticket.
#ifndef HEADWISE_KERNELS_BACKWARD_GROUP_H_
#define HEADWISE_KERNELS_BACKWARD_GROUP_H_

#include <atomic>
#include <thread>

#include "headwise/kernels/key_value_packing.h"
#include "headwise/kernels/query_packing.h"

namespace headwise {

// Packs one key block for backward. room: elements() long.
template <class T>
struct KeyPacker {
  using A = Accumulated<T>;
  const AttentionProblem<T>& problem;
  const AttentionShape& shape;
  TileShape tile;

  Index padded_width(Index width) const { return PanelLayout{width, tile.width}.padded(); }
  Index elements() const { return kKeyBlock * (shape.head_dim + shape.v_head_dim + padded_width(shape.head_dim)); }

  BackwardKeys<A> pack(Index b, Index g, Index block, A* room) const {
    const Index first = block * kKeyBlock;
    const Index last = std::min(first + kKeyBlock, keys_of(problem.visibility, shape, b));
    const PanelLayout over_keys{round_up(last - first, tile.width), tile.width};
    const auto keys = problem.inputs.keys.select(0, b).select(0, g);
    const auto values = problem.inputs.values.select(0, b).select(0, g);
    A* keys_by_key = room;
    A* values_by_key = keys_by_key + kKeyBlock * shape.head_dim;
    A* keys_by_width = values_by_key + kKeyBlock * shape.v_head_dim;
    const bool finite = pack_panels(columns_of(keys, first, last), over_keys, shape.head_dim, keys_by_key);
    pack_panels(columns_of(values, first, last), over_keys, shape.v_head_dim, values_by_key);
    pack_panels(rows_of(keys, first, last), PanelLayout{shape.head_dim, tile.width}, kKeyBlock, keys_by_width);
    return {keys_by_key, values_by_key, keys_by_width, finite};
  }
};

template <class T>
class BackwardGroup {
  using A = Accumulated<T>;

 public:
  // alibi, sinks: (heads of the group, seq_q), or null. Memory comes from `frame`, which must outlive the group.
  BackwardGroup(ScratchFrame& frame, const QueryPacker<T>& packer, const AttentionGradients<T>& gradients,
                const TileRules<A>& rules, Index batch, Index kv_head, double* alibi, double* sinks)
      : packer_(packer),
        keys_{packer.problem, packer.shape, packer.tile},
        gradients_(gradients),
        rules_(rules),
        batch_(batch),
        kv_head_(kv_head),
        heads_(packer.shape.heads / packer.shape.kv_heads),
        blocks_(query_blocks(packer.shape.seq_q, query_offset_of(packer.problem.visibility, packer.shape, batch))),
        padded_(packer.padded_width(packer.shape.head_dim)),
        alibi_(alibi) {
    const Index units = heads_ * blocks_;
    block_ = frame.take<QueryBlock>(units);
    queries_ = frame.take<BackwardQueries<A>>(units);
    ticket_ = frame.take<std::atomic<Index>>(units);
    grad_queries_ = frame.take<A>(heads_ * packer.shape.seq_q * padded_);
    std::fill_n(grad_queries_, heads_ * packer.shape.seq_q * padded_, A{0});
    A* room = frame.take<A>(units * round_up(packer.elements(), 16));
    TileRow<A>* rows = frame.take<TileRow<A>>(units * kQueryBlock);
    for (Index n = 0; n < units; ++n) {
      const Index head = n / blocks_;
      block_[n] = query_block(packer.problem.visibility, packer.shape, batch, n % blocks_);
      double* sink = sinks == nullptr ? nullptr : sinks + head * packer.shape.seq_q + block_[n].first;
      queries_[n] = packer.pack(batch, kv_head * heads_ + head, block_[n], room + n * round_up(packer.elements(), 16),
                                rows + n * kQueryBlock, sink);
      new (&ticket_[n]) std::atomic<Index>(block_[n].first_key_block);
    }
  }

  // Runs key block `block`. Blocks may run at the same time as long as every lower one has begun. `stop` ends the wait
  // for a lower block that will not come. `ahead`, where given, is fetched meanwhile.
  void run_key_block(Index block, std::atomic<bool>& stop, ReadAhead* ahead = nullptr) {
    const AttentionShape& shape = packer_.shape;
    const Index padded_v = packer_.padded_width(shape.v_head_dim);
    ScratchFrame frame;
    A* grad_keys = frame.take<A>(kKeyBlock * padded_);
    A* grad_values = frame.take<A>(kKeyBlock * padded_v);
    std::fill_n(grad_keys, kKeyBlock * padded_, A{0});
    std::fill_n(grad_values, kKeyBlock * padded_v, A{0});
    if (block * kKeyBlock < keys_of(packer_.problem.visibility, shape, batch_)) {
      BackwardTile<A> tile = tile_of(frame, block);
      tile.keys = keys_.pack(batch_, kv_head_, block, frame.take<A>(keys_.elements()));
      tile.grad_keys = grad_keys;
      tile.grad_values = grad_values;
      tile.ahead = ahead;
      for (Index n = 0; n < heads_ * blocks_; ++n) {
        if (block < block_[n].first_key_block || block >= block_[n].last_key_block) continue;
        run_query_block(tile, n, stop);
      }
    }
    store_rows(gradients_.keys, block, grad_keys, padded_);
    store_rows(gradients_.values, block, grad_values, padded_v);
  }

  // After all key blocks: scales grad_queries and stores it.
  void finish() const {
    if (!gradients_.queries) return;
    const A scale = score_scale(packer_.problem.rule, packer_.shape);
    for (Index n = 0; n < heads_; ++n) {
      const auto out = gradients_.queries.select(0, batch_).select(0, kv_head_ * heads_ + n);
      for (Index i = 0; i < packer_.shape.seq_q; ++i) {
        const A* from = grad_queries_ + (n * packer_.shape.seq_q + i) * padded_;
        T* to = out.data() + i * out.stride(0);
        for (Index d = 0; d < packer_.shape.head_dim; ++d) to[d * out.stride(1)] = narrow<T>(from[d] * scale);
      }
    }
  }

 private:
  BackwardTile<A> tile_of(ScratchFrame& frame, Index block) const {
    BackwardTile<A> tile;
    tile.rules = rules_;
    tile.head_dim = packer_.shape.head_dim;
    tile.v_head_dim = packer_.shape.v_head_dim;
    tile.block = block;
    // A register tile may read rows beyond the query block.
    const Index rows = round_up(kQueryBlock, packer_.tile.rows);
    tile.weights = frame.take<A>(rows * kTileStride);
    tile.grad_scores = frame.take<A>(rows * kTileStride);
    if (rules_.softcap > 0) tile.derivative = frame.take<A>(rows * kTileStride);
    tile.visible = frame.take<bool>(kQueryBlock * kKeyBlock);
    return tile;
  }

  void run_query_block(BackwardTile<A>& tile, Index n, std::atomic<bool>& stop) {
    const Index first_row = n / blocks_ * packer_.shape.seq_q + block_[n].first;
    tile.queries = queries_[n];
    tile.grad_queries = grad_queries_ + first_row * padded_;
    // The slopes' sums are ordered like grad_queries: behind the ticket.
    alignas(64) double alibi[kQueryBlock] = {};
    tile.alibi = alibi_ == nullptr ? nullptr : alibi;
    const bool any = packer_.functions.scores(tile);
    if (any) packer_.functions.keys_and_values(tile);
    std::atomic<Index>& ticket = ticket_[n];
    for (int spins = 0; ticket.load(std::memory_order_acquire) != tile.block; ++spins) {
      if (stop.load(std::memory_order_relaxed)) return;
      if (spins > 200) std::this_thread::yield();
    }
    if (any) packer_.functions.queries(tile);
    for (Index r = 0; alibi_ != nullptr && r < block_[n].rows; ++r) alibi_[first_row + r] += alibi[r];
    ticket.store(tile.block + 1, std::memory_order_release);
  }

  void store_rows(const TensorView<T, 4>& out, Index block, const A* gradient, Index padded) const {
    if (!out) return;
    const auto rows = out.select(0, batch_).select(0, kv_head_);
    const Index first = block * kKeyBlock, last = std::min(first + kKeyBlock, packer_.shape.seq_kv);
    for (Index j = first; j < last; ++j) {
      T* to = rows.data() + j * rows.stride(0);
      for (Index d = 0; d < rows.size(1); ++d) to[d * rows.stride(1)] = narrow<T>(gradient[(j - first) * padded + d]);
    }
  }

  const QueryPacker<T>& packer_;
  KeyPacker<T> keys_;
  const AttentionGradients<T>& gradients_;
  const TileRules<A>& rules_;
  Index batch_, kv_head_, heads_, blocks_, padded_;
  double* alibi_;
  QueryBlock* block_ = nullptr;
  BackwardQueries<A>* queries_ = nullptr;
  std::atomic<Index>* ticket_ = nullptr;
  A* grad_queries_ = nullptr;
};

}  // namespace headwise

#endif  // HEADWISE_KERNELS_BACKWARD_GROUP_H_
