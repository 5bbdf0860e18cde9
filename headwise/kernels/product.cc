// SPDX-License-Identifier: Apache-2.0
// How a product is cut. With many rows the right side is packed once, shared by all tasks, and tasks are tiles of rows
// times runs of columns. With few rows packing costs as much as the arithmetic: each task packs its own columns. A deep
// product (a weight's gradient: depth is tokens) goes through its depth in passes whose packed right side stays in the
// last cache; its totals wait between them.
#include "headwise/kernels/product.h"

#include <algorithm>

#include "headwise/kernels/forward_tile.h"
#include "headwise/runtime/cpu.h"
#include "headwise/runtime/run_tasks.h"
#include "headwise/runtime/scratch.h"
#include "headwise/runtime/threads.h"

namespace headwise {
namespace {

// Rows of one task at most. Multiples of every tile's rows.
constexpr Index kMostRows = 192, kFewRows = 96, kFewestRows = 48;
// Columns of one task at most: 96 rows of totals of so many floats and the slivers are 400 KB of second-level cache.
constexpr Index kMostColumns = 768, kFewestColumns = 128;
// A packed right side beyond this many bytes would go through memory.
constexpr Index kMostPacked = Index{6} << 20;

template <class A>
class ProductCall {
 public:
  ProductCall(const Product<A>& product, const Execution& execution, Isa isa)
      : product_(product),
        execution_(execution),
        run_block_(product_block_for<A>(isa)),
        tile_(tile_shape_for<A>(isa)),
        layout_{product.right.columns, tile_.width},
        depth_(product.left.columns),
        blocks_(ceil_div(depth_, kLinearBlock)),
        direct_(product.out_column_stride == 1 && product.bias_stride == 1 && blocks_ > 0 &&
                product.right.columns % product_vector_width<A>(isa) == 0) {}

  void run() {
    if (product_.left.rows == 0 || layout_.panels() == 0) return;
    cut();
    const Index row_tasks = ceil_div(product_.left.rows, task_rows_);
    const Index column_tasks = ceil_div(layout_.panels(), task_panels_);
    ScratchFrame frame;
    const Index pass = row_tasks > 1 ? blocks_per_pass() : blocks_;
    if (row_tasks > 1) packed_ = frame.take<A>(std::min(pass * kLinearBlock, depth_) * layout_.padded());
    if (pass < blocks_) totals_ = frame.take<A>(product_.left.rows * layout_.padded());
    do {  // once even where the depth is 0
      first_block_ = last_block_;
      last_block_ = std::min(first_block_ + pass, blocks_);
      if (packed_ != nullptr) pack_right();
      run_tasks(last_block_ == blocks_ ? execution_ : quiet(), row_tasks * column_tasks,
                [&](Index task, int) { run_task(task / column_tasks, task % column_tasks); });
    } while (last_block_ < blocks_);
  }

 private:
  // Large tasks pack less; but every worker needs some.
  void cut() {
    workers_ = (execution_.executor != nullptr ? *execution_.executor : threads()).workers();
    task_rows_ = cache_sizes().l2 >= (std::size_t{1} << 20) ? kMostRows : kFewRows;
    Index columns = kMostColumns;
    const auto tasks = [&] { return ceil_div(product_.left.rows, task_rows_) * ceil_div(layout_.columns, columns); };
    while (workers_ > 1 && task_rows_ > kFewestRows && tasks() < 2 * workers_) task_rows_ /= 2;
    while (workers_ > 1 && columns > kFewestColumns && tasks() < 2 * workers_) columns /= 2;
    task_panels_ = std::max<Index>(columns / layout_.width, 1);
  }

  // All, unless the packed right side is large and the totals are not.
  Index blocks_per_pass() const {
    const Index bytes = static_cast<Index>(sizeof(A)) * layout_.padded();
    if (depth_ * bytes <= kMostPacked || 4 * product_.left.rows > depth_) return blocks_;
    return std::max<Index>(kMostPacked / (kLinearBlock * bytes), 1);
  }

  // The progress callback belongs to the last run.
  Execution quiet() const {
    Execution execution = execution_;
    execution.progress = nullptr;
    return execution;
  }

  Matrix<A> depth_rows(Index block, Index first_panel, Index panels) const {
    const Matrix<A>& right = product_.right;
    const Index first_row = block * kLinearBlock, first_column = first_panel * layout_.width;
    return {right.data + first_row * right.row_stride + first_column * right.column_stride,
            std::min(kLinearBlock, depth_ - first_row), std::min(panels * layout_.width, right.columns - first_column),
            right.row_stride, right.column_stride};
  }

  // Block after block, each with all its panels.
  void pack_right() {
    constexpr Index kPanelsTogether = 8;
    const Index runs = ceil_div(layout_.panels(), kPanelsTogether);
    run_tasks(quiet(), (last_block_ - first_block_) * runs, [&](Index task, int) {
      const Index block = first_block_ + task / runs, first = task % runs * kPanelsTogether;
      const Matrix<A> part = depth_rows(block, first, kPanelsTogether);
      pack_panels(part, PanelLayout{part.columns, layout_.width}, part.rows, packed_at(block, first));
    });
  }

  A* packed_at(Index block, Index panel) const {
    const Index rows = std::min(kLinearBlock, depth_ - block * kLinearBlock);
    return packed_ + (block - first_block_) * kLinearBlock * layout_.padded() + panel * layout_.width * rows;
  }

  // A part of the left side to be fetched while `block` is computed.
  ReadAhead ahead_of(const ProductBlock<A>& block, Index first_row, Index first) const {
    const Matrix<A>& left = product_.left;
    ReadAhead ahead;
    const Index rows = std::min(task_rows_, left.rows - first_row), depth = std::min(kLinearBlock, depth_ - first);
    if (rows <= 0 || depth <= 0) return ahead;
    const A* data = left.data + first_row * left.row_stride + first * left.column_stride;
    if (left.column_stride == 1) ahead.add(data, rows, depth, left.row_stride);
    if (left.row_stride == 1 && left.column_stride != 1) ahead.add(data, depth, rows, left.column_stride);
    ahead.spread_over(ceil_div(block.rows, tile_.rows) * block.layout.panels());
    return ahead;
  }

  // What this worker packs next: the next block of the task, after the last one that of the task it is likely to take.
  ReadAhead next_left(const ProductBlock<A>& block, Index row_task, Index column_task, Index n) const {
    if (n + 1 < last_block_) return ahead_of(block, row_task * task_rows_, (n + 1) * kLinearBlock);
    const Index column_tasks = ceil_div(layout_.panels(), task_panels_);
    const Index next = row_task * column_tasks + column_task + workers_;
    return ahead_of(block, next / column_tasks * task_rows_, first_block_ * kLinearBlock);
  }

  void run_task(Index row_task, Index column_task) const {
    if (execution_.cancelled()) throw Cancelled();
    ScratchFrame frame;
    const Index first_row = row_task * task_rows_, first_panel = column_task * task_panels_;
    const Index first_column = first_panel * layout_.width;
    const Index panels = std::min(task_panels_, layout_.panels() - first_panel);
    ProductBlock<A> block;
    block.layout = {std::min(panels * layout_.width, product_.right.columns - first_column), layout_.width};
    block.rows = std::min(task_rows_, product_.left.rows - first_row);
    block.stride = totals_ == nullptr ? block.layout.padded() : layout_.padded();
    block.total = totals_ == nullptr ? frame.take<A>(block.rows * block.stride)
                                     : totals_ + first_row * block.stride + first_column;
    A* slivers = frame.take<A>(round_up(block.rows, tile_.rows) * std::min(kLinearBlock, depth_));
    A* own = packed_ == nullptr ? frame.take<A>(block.layout.padded() * std::min(kLinearBlock, depth_)) : nullptr;
    if (blocks_ == 0) std::fill_n(block.total, block.rows * block.stride, A{0});
    for (Index n = first_block_; n < last_block_; ++n) {
      const Matrix<A>& left = product_.left;
      const Index first = n * kLinearBlock;
      block.depth = std::min(kLinearBlock, depth_ - first);
      block.first = n == 0;
      pack_slivers(Matrix<A>{left.data + first_row * left.row_stride + first * left.column_stride, block.rows,
                             block.depth, left.row_stride, left.column_stride},
                   tile_.rows, A{1}, slivers);
      block.slivers = slivers;
      block.panels = packed_ == nullptr ? own : packed_at(n, first_panel);
      if (packed_ == nullptr) pack_panels(depth_rows(n, first_panel, panels), block.layout, block.depth, own);
      if (direct_ && n + 1 == blocks_) aim(block, first_row, first_column);
      ReadAhead ahead = next_left(block, row_task, column_task, n);
      block.ahead = &ahead;
      run_block_(block);
    }
    if (last_block_ == blocks_ && block.out == nullptr) store(block, first_row, first_column);
  }

  // The last block writes the results themselves.
  void aim(ProductBlock<A>& block, Index first_row, Index first_column) const {
    block.out = product_.out + first_row * product_.out_row_stride + first_column;
    block.out_stride = product_.out_row_stride;
    block.bias = product_.bias == nullptr ? nullptr : product_.bias + first_column;
    block.add = product_.add;
  }

  void store(const ProductBlock<A>& block, Index first_row, Index first_column) const {
    const Index step = product_.out_column_stride;
    const A* bias = product_.bias == nullptr ? nullptr : product_.bias + first_column * product_.bias_stride;
    for (Index r = 0; r < block.rows; ++r) {
      const A* total = block.total + r * block.stride;
      A* to = product_.out + (first_row + r) * product_.out_row_stride + first_column * step;
      for (Index n = 0; n < block.layout.columns; ++n) {
        const A value = bias == nullptr ? total[n] : total[n] + bias[n * product_.bias_stride];
        to[n * step] = product_.add ? to[n * step] + value : value;
      }
    }
  }

  const Product<A>& product_;
  const Execution& execution_;
  ProductBlockFunction<A> run_block_;
  TileShape tile_;
  PanelLayout layout_;
  Index depth_, blocks_;
  bool direct_;
  Index workers_ = 1, task_rows_ = 0, task_panels_ = 0;
  Index first_block_ = 0, last_block_ = 0;  // of the present pass
  A* packed_ = nullptr;
  A* totals_ = nullptr;
};

}  // namespace

template <class A>
void run_product(const Product<A>& product, const Execution& execution, Isa isa) {
  ProductCall<A>(product, execution, isa).run();
}

template void run_product(const Product<float>&, const Execution&, Isa);
template void run_product(const Product<double>&, const Execution&, Isa);

}  // namespace headwise
