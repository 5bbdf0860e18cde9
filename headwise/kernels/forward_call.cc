// SPDX-License-Identifier: Apache-2.0
// Two ways to share the work among threads. Many groups of heads: each task packs the keys and values of one group and
// runs its tiles. Few groups: all are packed first, then tiles (or, for short queries, runs of key blocks) are the
// tasks. Neither changes a bit: a row's blocks are folded left to right in both.
#include "headwise/kernels/forward_call.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "headwise/kernels/group_inputs.h"
#include "headwise/kernels/key_value_packing.h"
#include "headwise/kernels/row_results.h"
#include "headwise/kernels/tile_rows.h"
#include "headwise/runtime/run_tasks.h"
#include "headwise/runtime/threads.h"

namespace headwise {
namespace {

template <class T>
class ForwardCall {
  using A = Accumulated<T>;

 public:
  ForwardCall(const AttentionProblem<T>& problem, const AttentionShape& shape, const AttentionOutputs<T>& outputs,
              const Execution& execution, Isa isa, const PackedStore<T>* cached, const AttentionCarry<A>* carry)
      : problem_(problem),
        shape_(shape),
        outputs_(outputs),
        execution_(execution),
        cached_(cached),
        carry_(carry),
        run_tile_(forward_tile_for<A>(isa)),
        fold_partials_(partial_fold_for<A>(isa)),
        tile_shape_(tile_shape_for<A>(isa)),
        rules_(tile_rules(problem)),
        group_heads_(shape.kv_heads > 0 ? shape.heads / shape.kv_heads : 0),
        tapped_(outputs.weights || outputs.statistics.received || wants_row_statistics(outputs.statistics)),
        cut_(group_heads_, shape.seq_q, rows_per_tile()),
        padded_(PanelLayout{shape.v_head_dim, tile_shape_.width}.padded()) {}

  void run() {
    const Index groups = shape_.batch * shape_.kv_heads;
    if (groups == 0 || group_heads_ == 0) return;
    Executor& executor = execution_.executor != nullptr ? *execution_.executor : threads();
    const int workers = executor.workers();
    workers_ = workers;
    if (!widens_near() && (workers == 1 || groups >= 4 * workers || outputs_.statistics.received)) {
      run_tasks(execution_, groups, [this](Index group, int) { run_group(group); });
    } else {
      run_together(groups, workers);
    }
  }

 private:
  // Taps keep a row of exponentials per query: fewer rows at a time when the rows are long.
  Index rows_per_tile() const {
    constexpr Index kMostTapped = Index{1} << 21;
    if (!tapped_) return kForwardRows;
    return std::clamp<Index>(kMostTapped / std::max<Index>(shape_.seq_kv, 1), 1, kForwardRows);
  }

  Index batch_of(Index group) const { return group / shape_.kv_heads; }
  Index kv_head_of(Index group) const { return group % shape_.kv_heads; }

  // Key blocks [first, last) that the rows [row, row + count) of a batch entry can reach.
  std::pair<Index, Index> blocks_of_rows(Index batch, Index row, Index count) const {
    if (count == 0) return {0, 0};
    const Index keys = keys_of(problem_.visibility, shape_, batch);
    const Index offset = query_offset_of(problem_.visibility, shape_, batch);
    const KeyRange low = key_range(problem_.visibility, keys, row + offset);
    const KeyRange high = key_range(problem_.visibility, keys, row + count - 1 + offset);
    const Index end = std::min(keys, std::max(low.end, high.end));
    if (low.begin >= end) return {0, 0};
    return {low.begin / kKeyBlock, ceil_div(end, kKeyBlock)};
  }

  void pack(Index group, Index block, const PackedStore<A>& store, Index at) const {
    if (cached_ != nullptr) return widen_block(*cached_, group, block, store, at);
    const Index b = batch_of(group), g = kv_head_of(group);
    pack_block(problem_.inputs.keys.select(0, b).select(0, g), problem_.inputs.values.select(0, b).select(0, g), block,
               keys_of(problem_.visibility, shape_, b), tile_shape_, store, at);
  }

  void run_group(Index group) const {
    ScratchFrame frame;
    const auto [first, last] = blocks_of_rows(batch_of(group), 0, shape_.seq_q);
    PackedStore<A> store;
    Index at = 0;
    if (const PackedStore<A>* ready = ready_store()) {
      store = *ready;
      at = group;
    } else {
      store = take_store<A>(frame, 1, first, last - first, shape_.head_dim, shape_.v_head_dim, tile_shape_);
      for (Index block = first; block < last; ++block) pack(group, block, store, 0);
    }
    const PackedKeyValues<A> packed = store.group(at);
    double* received = nullptr;
    if (outputs_.statistics.received) {
      received = frame.take<double>(group_heads_ * shape_.seq_kv);
      std::fill_n(received, group_heads_ * shape_.seq_kv, 0.0);
    }
    ReadAhead ahead;
    if (cached_ == nullptr) ahead = inputs_of_group(problem_, shape_, tile_shape_, group + workers_);
    for (Index tile = 0; tile < cut_.tiles(); ++tile) {
      if (execution_.cancelled()) throw Cancelled();
      run_tile(group, tile, packed, received, &ahead);
    }
    if (received != nullptr) write_received(group, received);
  }

  void run_together(Index groups, int workers) const {
    ScratchFrame frame;
    const Index tiles = cut_.tiles();
    const bool split = widens_near() || (groups * tiles < 2 * workers && !tapped_ && carry_ == nullptr);
    PackedStore<A> store;
    if (const PackedStore<A>* ready = ready_store()) {
      store = *ready;
    } else if (cached_ == nullptr || !split) {
      store = take_store<A>(frame, groups, 0, ceil_div(shape_.seq_kv, kKeyBlock), shape_.head_dim, shape_.v_head_dim,
                            tile_shape_);
      run_tasks(quiet(), groups * store.blocks, [&](Index task, int) {
        const Index group = task / store.blocks, block = task % store.blocks;
        const auto [first, last] = blocks_of_rows(batch_of(group), 0, shape_.seq_q);
        if (first <= block && block < last) pack(group, block, store, group);
      });
    }
    if (split) return run_split(groups, workers, store);
    run_tasks(execution_, groups * tiles, [&](Index task, int) {
      // Late rows see more keys under a causal rule: they go first.
      run_tile(task % groups, tiles - 1 - task / groups, store.group(task % groups), nullptr, nullptr);
    });
  }

  // Short queries against a 16-bit cache: each task widens its own block while it is near, so that memory is read once.
  bool widens_near() const {
    return cached_ != nullptr && ready_store() == nullptr && !tapped_ && carry_ == nullptr && cut_.tiles() <= 2;
  }

  // The cache itself, where it holds the type that tiles work on.
  const PackedStore<A>* ready_store() const {
    if constexpr (std::is_same_v<T, A>) {
      return cached_;
    } else {
      return nullptr;
    }
  }

  // The progress callback and the last word belong to the main run.
  Execution quiet() const {
    Execution execution = execution_;
    execution.progress = nullptr;
    return execution;
  }

  struct TileWork {
    TileRange range;
    Index rows = 0, batch = 0;
    TileRow<A>* row = nullptr;
    RowPlace* place = nullptr;
    A* queries = nullptr;
    Index first_block = 0, last_block = 0;
  };

  TileWork prepare(ScratchFrame& frame, Index group, Index number) const {
    TileWork work;
    work.range = cut_.tile(number);
    work.rows = work.range.rows();
    work.batch = batch_of(group);
    work.row = frame.take<TileRow<A>>(work.rows);
    work.place = frame.take<RowPlace>(work.rows);
    const Index d = shape_.head_dim, height = tile_shape_.rows;
    work.queries = frame.take<A>(round_up(work.rows, height) * d);
    const A scale = score_scale(problem_.rule, shape_);
    Index r = 0;
    for (Index n = 0; n < work.range.heads; ++n) {
      const Index h = kv_head_of(group) * group_heads_ + work.range.first_head + n;
      const DropoutStream stream =
          rules_.dropout_threshold > 0 ? dropout_stream(problem_.dropout, work.batch, h) : DropoutStream{};
      for (Index n_row = 0; n_row < work.range.rows_per_head; ++n_row, ++r) {
        const Index i = work.range.first_row + n_row;
        work.row[r] = tile_row(problem_, shape_, work.batch, h, i, stream);
        work.place[r] = {work.batch, h, i};
      }
      const auto queries = problem_.inputs.queries.select(0, work.batch).select(0, h);
      const Index first = work.range.first_row, last = first + work.range.rows_per_head;
      pack_slivers(rows_of(queries, first, last), height, scale, work.queries, r - work.range.rows_per_head);
    }
    const auto [first, last] = blocks_of_rows(work.batch, work.range.first_row, work.range.rows_per_head);
    work.first_block = first;
    work.last_block = last;
    return work;
  }

  ForwardTile<A> tile_of(ScratchFrame& frame, const TileWork& work, const PackedKeyValues<A>& packed) const {
    ForwardTile<A> tile;
    tile.rules = rules_;
    tile.packed = packed;
    tile.first_block = work.first_block;
    tile.last_block = work.last_block;
    tile.rows = work.rows;
    tile.row = work.row;
    tile.queries = work.queries;
    tile.scores = frame.take<A>(kForwardRows * kTileStride);
    tile.visible = frame.take<bool>(kForwardRows * kKeyBlock);
    return tile;
  }

  void run_tile(Index group, Index number, const PackedKeyValues<A>& packed, double* received, ReadAhead* ahead) const {
    ScratchFrame frame;
    const TileWork work = prepare(frame, group, number);
    ForwardTile<A> tile = tile_of(frame, work, packed);
    tile.ahead = ahead;
    tile.context = frame.take<A>(work.rows * padded_);
    tile.max = frame.take<A>(kForwardRows);
    tile.sum = frame.take<A>(kForwardRows);
    if (tapped_) {
      tile.exps_stride = (work.last_block - work.first_block) * kKeyBlock;
      tile.exps = frame.take<A>(work.rows * tile.exps_stride);
      tile.block_max = frame.take<A>((work.last_block - work.first_block) * kForwardRows);
    }
    if (carry_ != nullptr) return run_carried(work, tile);
    run_tile_(tile);
    for (Index r = 0; r < work.rows; ++r) {
      write_row_results(outputs_, work.place[r], rules_, tile.context + r * padded_, tile.max[r], tile.sum[r]);
      if (tapped_) write_taps(work, tile, r, received);
    }
  }

  void run_carried(const TileWork& work, ForwardTile<A>& tile) const {
    tile.resume = true;
    const auto rows_of = [this](const RowPlace& at) {
      return carry_->context.select(0, at.batch).select(0, at.head).select(0, at.row);
    };
    for (Index r = 0; r < work.rows; ++r) {
      const RowPlace& at = work.place[r];
      tile.sum[r] = carry_->row_sum(at.batch, at.head, at.row);
      tile.max[r] = carry_->row_max(at.batch, at.head, at.row);
      A* to = tile.context + r * padded_;
      std::fill_n(to, padded_, A{0});
      for (Index d = 0; tile.sum[r] != 0 && d < shape_.v_head_dim; ++d) to[d] = rows_of(at)(d);
    }
    run_tile_(tile);
    for (Index r = 0; r < work.rows; ++r) {
      const RowPlace& at = work.place[r];
      carry_->row_sum(at.batch, at.head, at.row) = tile.sum[r];
      carry_->row_max(at.batch, at.head, at.row) = tile.max[r];
      for (Index d = 0; d < shape_.v_head_dim; ++d) rows_of(at)(d) = tile.context[r * padded_ + d];
    }
  }

  void write_taps(const TileWork& work, const ForwardTile<A>& tile, Index r, double* received) const {
    const RowPlace& at = work.place[r];
    ScratchFrame frame;
    A* all = frame.take<A>(shape_.seq_kv);
    std::fill_n(all, shape_.seq_kv, A{0});
    const Index first = work.first_block * kKeyBlock;
    const Index count = std::min(tile.exps_stride, shape_.seq_kv - first);
    if (count > 0) {
      std::copy_n(tile.exps + r * tile.exps_stride, count, all + first);
      weights_from_exps(std::span<A>(all + first, count), tile.block_max + r, kForwardRows, tile.max[r], tile.sum[r]);
    }
    const std::span<A> weights(all, shape_.seq_kv);
    if (std::isnan(tile.sum[r])) {
      poison_row(problem_, at.batch, at.head, at.row, {work.row[r].begin, work.row[r].end}, weights);
    }
    double* sums = received == nullptr ? nullptr : received + at.head % group_heads_ * shape_.seq_kv;
    write_row_statistics<A>(outputs_.statistics, weights, work.row[r].position, at.batch, at.head, at.row, sums);
    if (outputs_.weights) write_row_weights(outputs_, at, work.row[r], rules_, std::span<const A>(weights), 0);
  }

  void write_received(Index group, const double* received) const {
    for (Index n = 0; n < group_heads_; ++n) {
      const Index h = kv_head_of(group) * group_heads_ + n;
      for (Index j = 0; j < shape_.seq_kv; ++j) {
        outputs_.statistics.received(batch_of(group), h, j) = static_cast<A>(received[n * shape_.seq_kv + j]);
      }
    }
  }

  // Few short tiles: runs of key blocks are the tasks, their unfolded results are folded in order afterwards.
  void run_split(Index groups, int workers, const PackedStore<A>& store) const {
    ScratchFrame frame;
    const Index tiles = cut_.tiles(), units = groups * tiles;
    std::vector<TileWork> work;
    std::vector<PartialFold<A>> folds;
    work.reserve(static_cast<std::size_t>(units));
    folds.reserve(static_cast<std::size_t>(units));
    std::vector<std::pair<Index, Index>> tasks;  // (unit, first block)
    Index most = 1;
    for (Index unit = 0; unit < units; ++unit) {
      work.push_back(prepare(frame, unit / tiles, unit % tiles));
      most = std::max(most, work.back().last_block - work.back().first_block);
    }
    const bool widens = store.keys == nullptr;
    const Index run = widens ? 1 : std::max<Index>(1, ceil_div(most * units, 4 * workers));
    for (Index unit = 0; unit < units; ++unit) {
      PartialFold<A> fold;
      fold.rules = rules_;
      fold.rows = work[unit].rows;
      fold.blocks = work[unit].last_block - work[unit].first_block;
      fold.padded = padded_;
      fold.row = work[unit].row;
      folds.push_back(fold);
      for (Index block = work[unit].first_block; block < work[unit].last_block; block += run) {
        tasks.emplace_back(unit, block);
      }
    }
    std::vector<A*> partials;
    partials.reserve(folds.size());
    for (const PartialFold<A>& fold : folds) {
      partials.push_back(frame.take<A>(fold.blocks * (fold.rows * padded_ + 2 * kForwardRows)));
    }
    run_tasks(quiet(), static_cast<Index>(tasks.size()), [&](Index task, int) {
      const auto [unit, block] = tasks[task];
      const PartialFold<A>& fold = folds[unit];
      ScratchFrame own;
      const Index at = block - work[unit].first_block, last = std::min(block + run, work[unit].last_block);
      PackedKeyValues<A> packed;
      if (store.keys != nullptr) {
        packed = store.group(unit / tiles);
      } else {  // a 16-bit cache: widened here, block by block, while it is near
        const auto near = take_store<A>(own, 1, block, last - block, shape_.head_dim, shape_.v_head_dim, tile_shape_);
        for (Index n = block; n < last; ++n) pack(unit / tiles, n, near, 0);
        packed = near.group(0);
      }
      ForwardTile<A> tile = tile_of(own, work[unit], packed);
      tile.partial = true;
      tile.first_block = block;
      tile.last_block = last;
      tile.context = partials[unit] + at * fold.rows * padded_;
      tile.max = partials[unit] + fold.blocks * fold.rows * padded_ + at * kForwardRows;
      tile.sum = tile.max + fold.blocks * kForwardRows;
      run_tile_(tile);
    });
    run_tasks(execution_, units, [&](Index unit, int) {
      PartialFold<A> fold = folds[unit];
      ScratchFrame own;
      fold.partial_context = partials[unit];
      fold.partial_max = partials[unit] + fold.blocks * fold.rows * padded_;
      fold.partial_sum = fold.partial_max + fold.blocks * kForwardRows;
      fold.context = own.take<A>(fold.rows * padded_);
      fold.max = own.take<A>(kForwardRows);
      fold.sum = own.take<A>(kForwardRows);
      fold_partials_(fold);
      for (Index r = 0; r < fold.rows; ++r) {
        write_row_results(outputs_, work[unit].place[r], rules_, fold.context + r * padded_, fold.max[r], fold.sum[r]);
      }
    });
  }

  const AttentionProblem<T>& problem_;
  const AttentionShape& shape_;
  const AttentionOutputs<T>& outputs_;
  const Execution& execution_;
  const PackedStore<T>* cached_;
  const AttentionCarry<A>* carry_;
  ForwardTileFunction<A> run_tile_;
  PartialFoldFunction<A> fold_partials_;
  TileShape tile_shape_;
  TileRules<A> rules_;
  Index group_heads_;
  Index workers_ = 1;
  bool tapped_;
  TileCut cut_;
  Index padded_;
};

}  // namespace

template <class T>
void run_forward(const AttentionProblem<T>& problem, const AttentionShape& shape, const AttentionOutputs<T>& outputs,
                 const Execution& execution, Isa isa, const PackedStore<T>* cached,
                 const AttentionCarry<Accumulated<T>>* carry) {
  ForwardCall<T>(problem, shape, outputs, execution, isa, cached, carry).run();
}

#define HEADWISE_RUN_FORWARD(T)                                                                            \
  template void run_forward(const AttentionProblem<T>&, const AttentionShape&, const AttentionOutputs<T>&, \
                            const Execution&, Isa, const PackedStore<T>*, const AttentionCarry<Accumulated<T>>*);
HEADWISE_RUN_FORWARD(float)
HEADWISE_RUN_FORWARD(double)
HEADWISE_RUN_FORWARD(float16)
HEADWISE_RUN_FORWARD(bfloat16)
#undef HEADWISE_RUN_FORWARD

}  // namespace headwise
