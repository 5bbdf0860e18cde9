// SPDX-License-Identifier: Apache-2.0
// How a product is cut. With many rows the right side is packed once, shared by all tasks, and tasks are tiles of rows
// times runs of columns. With few rows packing costs as much as the arithmetic: each task packs its own columns.
#include "headwise/kernels/product.h"

#include <algorithm>

#include "headwise/kernels/forward_tile.h"
#include "headwise/runtime/run_tasks.h"
#include "headwise/runtime/scratch.h"
#include "headwise/runtime/threads.h"

namespace headwise {
namespace {

// Rows of one task at most: its slivers of one depth block (192 x 256 floats, 192 KiB) stay in the second-level cache.
constexpr Index kRowsPerTask = 192;
// A small product is cut finer, so that every worker has something to do. Multiples of every tile's rows.
constexpr Index kFewestRows = 48;
// Columns of one task, in panels: totals of 192 x 256 floats beside the slivers.
constexpr Index kPanelsPerTask = 8;

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
        blocks_(ceil_div(depth_, kLinearBlock)) {}

  void run() {
    const Index column_tasks = ceil_div(layout_.panels(), kPanelsPerTask);
    const Index workers = (execution_.executor != nullptr ? *execution_.executor : threads()).workers();
    while (workers > 1 && task_rows_ > kFewestRows &&
           ceil_div(product_.left.rows, task_rows_) * column_tasks < 2 * workers) {
      task_rows_ /= 2;
    }
    const Index row_tasks = ceil_div(product_.left.rows, task_rows_);
    if (row_tasks == 0 || column_tasks == 0) return;
    ScratchFrame frame;
    if (row_tasks > 1) pack_right(frame);
    run_tasks(execution_, row_tasks * column_tasks,
              [&](Index task, int) { run_task(task / column_tasks, task % column_tasks); });
  }

 private:
  Matrix<A> depth_rows(Index block, Index first_panel, Index panels) const {
    const Matrix<A>& right = product_.right;
    const Index first_row = block * kLinearBlock, first_column = first_panel * layout_.width;
    return {right.data + first_row * right.row_stride + first_column * right.column_stride,
            std::min(kLinearBlock, depth_ - first_row), std::min(panels * layout_.width, right.columns - first_column),
            right.row_stride, right.column_stride};
  }

  // Block after block, each with all its panels.
  void pack_right(ScratchFrame& frame) {
    packed_ = frame.take<A>(depth_ * layout_.padded());
    Execution quiet = execution_;
    quiet.progress = nullptr;
    const Index runs = ceil_div(layout_.panels(), kPanelsPerTask);
    run_tasks(quiet, blocks_ * runs, [&](Index task, int) {
      const Index block = task / runs, first = task % runs * kPanelsPerTask;
      const Matrix<A> part = depth_rows(block, first, kPanelsPerTask);
      pack_panels(part, PanelLayout{part.columns, layout_.width}, part.rows, packed_at(block, first));
    });
  }

  A* packed_at(Index block, Index panel) const {
    const Index rows = std::min(kLinearBlock, depth_ - block * kLinearBlock);
    return packed_ + block * kLinearBlock * layout_.padded() + panel * layout_.width * rows;
  }

  void run_task(Index row_task, Index column_task) const {
    if (execution_.cancelled()) throw Cancelled();
    ScratchFrame frame;
    const Index first_row = row_task * task_rows_, first_panel = column_task * kPanelsPerTask;
    const Index rows = std::min(task_rows_, product_.left.rows - first_row);
    const Index panels = std::min(kPanelsPerTask, layout_.panels() - first_panel);
    const PanelLayout layout{std::min(panels * layout_.width, product_.right.columns - first_panel * layout_.width),
                             layout_.width};
    ProductBlock<A> block;
    block.layout = layout;
    block.rows = rows;
    block.stride = layout.padded();
    block.total = frame.take<A>(rows * block.stride);
    A* slivers = frame.take<A>(round_up(rows, tile_.rows) * std::min(kLinearBlock, depth_));
    A* own_panels = packed_ == nullptr ? frame.take<A>(layout.padded() * std::min(kLinearBlock, depth_)) : nullptr;
    if (blocks_ == 0) std::fill_n(block.total, rows * block.stride, A{0});
    for (Index n = 0; n < blocks_; ++n) {
      const Index first = n * kLinearBlock;
      block.depth = std::min(kLinearBlock, depth_ - first);
      block.first = n == 0;
      const Matrix<A>& left = product_.left;
      pack_slivers(Matrix<A>{left.data + first_row * left.row_stride + first * left.column_stride, rows, block.depth,
                             left.row_stride, left.column_stride},
                   tile_.rows, A{1}, slivers);
      block.slivers = slivers;
      block.panels = packed_ == nullptr ? own_panels : packed_at(n, first_panel);
      if (packed_ == nullptr) pack_panels(depth_rows(n, first_panel, panels), layout, block.depth, own_panels);
      run_block_(block);
    }
    store(block, first_row, first_panel * layout_.width);
  }

  void store(const ProductBlock<A>& block, Index first_row, Index first_column) const {
    const Index step = product_.out_column_stride;
    for (Index r = 0; r < block.rows; ++r) {
      A* total = block.total + r * block.stride;
      A* to = product_.out + (first_row + r) * product_.out_row_stride + first_column * step;
      if (product_.bias != nullptr) add_bias(total, first_column, block.layout.columns);
      if (step == 1) {
        store_row(total, to, block.layout.columns);
      } else {
        for (Index n = 0; n < block.layout.columns; ++n)
          to[n * step] = product_.add ? to[n * step] + total[n] : total[n];
      }
    }
  }

  void add_bias(A* total, Index first_column, Index columns) const {
    const A* bias = product_.bias + first_column * product_.bias_stride;
    for (Index n = 0; n < columns; ++n) total[n] = total[n] + bias[n * product_.bias_stride];
  }

  void store_row(const A* total, A* to, Index columns) const {
    if (product_.add) {
      for (Index n = 0; n < columns; ++n) to[n] = to[n] + total[n];
    } else {
      std::copy_n(total, columns, to);
    }
  }

  const Product<A>& product_;
  const Execution& execution_;
  ProductBlockFunction<A> run_block_;
  TileShape tile_;
  PanelLayout layout_;
  Index depth_, blocks_;
  Index task_rows_ = kRowsPerTask;
  A* packed_ = nullptr;
};

}  // namespace

template <class A>
void run_product(const Product<A>& product, const Execution& execution, Isa isa) {
  ProductCall<A>(product, execution, isa).run();
}

template void run_product(const Product<float>&, const Execution&, Isa);
template void run_product(const Product<double>&, const Execution&, Isa);

}  // namespace headwise
