// SPDX-License-Identifier: Apache-2.0
// The gradient of an additive bias. Tasks are key blocks, since two blocks never meet in one element unless the bias is
// the same for all keys; within a task the order of the sums is that of the canonical program.
#include <algorithm>

#include "headwise/kernels/backward_call.h"
#include "headwise/kernels/backward_group.h"
#include "headwise/runtime/run_tasks.h"

namespace headwise {
namespace {

template <class T>
class BiasGradient {
  using A = Accumulated<T>;

 public:
  BiasGradient(const AttentionProblem<T>& problem, const AttentionShape& shape,
               const TensorView<const T, 4>& grad_context, const AttentionSaved<T>& saved, const TensorView<T, 4>& out,
               const Execution& execution, Isa isa)
      : problem_(problem),
        shape_(shape),
        out_(out),
        execution_(execution),
        functions_(backward_functions_for<A>(isa)),
        rules_(tile_rules(problem)),
        queries_{problem, shape, grad_context, saved, functions_, tile_shape_for<A>(isa), rules_.dropout_threshold > 0},
        keys_{problem, shape, tile_shape_for<A>(isa)} {}

  void run() {
    ScratchFrame frame;
    sums_ = frame.take<double>(out_.elements());
    std::fill_n(sums_, out_.elements(), 0.0);
    const Index blocks = shape_.heads == 0 ? 0 : ceil_div(shape_.seq_kv, kKeyBlock);
    const bool one_task = out_.size(3) == 1;
    run_tasks(execution_, one_task ? std::min<Index>(blocks, 1) : blocks,
              [&](Index block, int) { run_blocks(block, one_task ? blocks : block + 1); });
    store();
  }

 private:
  struct Place {
    BiasGradient* self;
    Index batch, head, first_row;
  };

  static void tap(void* context, Index row, Index first_key, Index count, const A* grad_scores, const bool* visible) {
    const Place& at = *static_cast<Place*>(context);
    const TensorView<T, 4>& out = at.self->out_;
    const Index index[] = {at.batch, at.head, at.first_row + row};
    Index flat = 0;
    for (int axis = 0; axis < 3; ++axis) flat = flat * out.size(axis) + (out.size(axis) == 1 ? 0 : index[axis]);
    double* sums = at.self->sums_ + flat * out.size(3);
    for (Index n = 0; n < count; ++n) {
      if (visible[n]) sums[out.size(3) == 1 ? 0 : first_key + n] += static_cast<double>(grad_scores[n]);
    }
  }

  void run_blocks(Index first, Index last) {
    ScratchFrame frame;
    BackwardTile<A> tile;
    const Index rows = round_up(kQueryBlock, queries_.tile.rows);
    tile.rules = rules_;
    tile.head_dim = shape_.head_dim;
    tile.v_head_dim = shape_.v_head_dim;
    tile.weights = frame.take<A>(rows * kTileStride);
    tile.grad_scores = frame.take<A>(rows * kTileStride);
    if (rules_.softcap > 0) tile.derivative = frame.take<A>(rows * kTileStride);
    tile.visible = frame.take<bool>(kQueryBlock * kKeyBlock);
    tile.bias_tap = &tap;
    A* key_room = frame.take<A>(keys_.elements());
    A* query_room = frame.take<A>(queries_.elements());
    TileRow<A>* row_room = frame.take<TileRow<A>>(kQueryBlock);
    const Index group = shape_.heads / shape_.kv_heads;
    for (Index b = 0; b < shape_.batch; ++b) {
      const Index keys = keys_of(problem_.visibility, shape_, b);
      for (Index g = 0; g < shape_.kv_heads; ++g) {
        for (Index block = first; block < last && block * kKeyBlock < keys; ++block) {
          if (execution_.cancelled()) throw Cancelled();
          tile.block = block;
          tile.keys = keys_.pack(b, g, block, key_room);
          for (Index h = g * group; h < (g + 1) * group; ++h) run_head(tile, b, h, query_room, row_room);
        }
      }
    }
  }

  void run_head(BackwardTile<A>& tile, Index b, Index h, A* room, TileRow<A>* rows) {
    const Index count = query_blocks(shape_.seq_q, query_offset_of(problem_.visibility, shape_, b));
    for (Index n = 0; n < count; ++n) {
      const QueryBlock block = query_block(problem_.visibility, shape_, b, n);
      if (tile.block < block.first_key_block || tile.block >= block.last_key_block) continue;
      Place place{this, b, h, block.first};
      tile.bias_context = &place;
      tile.queries = queries_.pack(b, h, block, room, rows, nullptr);
      functions_.scores(tile);
    }
  }

  void store() const {
    Index flat = 0;
    for (Index b = 0; b < out_.size(0); ++b) {
      for (Index h = 0; h < out_.size(1); ++h) {
        for (Index i = 0; i < out_.size(2); ++i) {
          for (Index j = 0; j < out_.size(3); ++j) out_(b, h, i, j) = narrow<T>(static_cast<A>(sums_[flat++]));
        }
      }
    }
  }

  const AttentionProblem<T>& problem_;
  const AttentionShape& shape_;
  TensorView<T, 4> out_;
  const Execution& execution_;
  BackwardFunctions<A> functions_;
  TileRules<A> rules_;
  QueryPacker<T> queries_;
  KeyPacker<T> keys_;
  double* sums_ = nullptr;
};

}  // namespace

template <class T>
void run_bias_gradient(const AttentionProblem<T>& problem, const AttentionShape& shape,
                       const TensorView<const T, 4>& grad_context, const AttentionSaved<T>& saved,
                       const AttentionGradients<T>& gradients, const Execution& execution, Isa isa) {
  BiasGradient<T>(problem, shape, grad_context, saved, gradients.bias, execution, isa).run();
}

#define HEADWISE_BIAS_GRADIENT(T)                                                                                   \
  template void run_bias_gradient(const AttentionProblem<T>&, const AttentionShape&, const TensorView<const T, 4>&, \
                                  const AttentionSaved<T>&, const AttentionGradients<T>&, const Execution&, Isa);
HEADWISE_BIAS_GRADIENT(float)
HEADWISE_BIAS_GRADIENT(double)
HEADWISE_BIAS_GRADIENT(float16)
HEADWISE_BIAS_GRADIENT(bfloat16)
#undef HEADWISE_BIAS_GRADIENT

}  // namespace headwise
