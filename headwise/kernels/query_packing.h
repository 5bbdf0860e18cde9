// SPDX-License-Identifier: Apache-2.0
// Packs the query blocks of one head for backward.
#ifndef HEADWISE_KERNELS_QUERY_PACKING_H_
#define HEADWISE_KERNELS_QUERY_PACKING_H_

#include "headwise/kernels/backward_tile.h"
#include "headwise/kernels/exponential.h"
#include "headwise/kernels/tile_rows.h"
#include "headwise/runtime/scratch.h"

namespace headwise {

// Query rows [first, first + rows) whose positions lie in one query block.
struct QueryBlock {
  Index first = 0, rows = 0;
  Index first_key_block = 0, last_key_block = 0;  // key blocks that any of them can reach
};

// The blocks of a batch entry: at most kQueryBlock rows each, cut where (row + offset) is a multiple of it.
inline Index query_blocks(Index seq_q, Index offset) {
  if (seq_q == 0) return 0;
  return floor_div(seq_q - 1 + offset, kQueryBlock) - floor_div(offset, kQueryBlock) + 1;
}

inline QueryBlock query_block(const Visibility& visibility, const AttentionShape& shape, Index batch, Index number) {
  const Index offset = query_offset_of(visibility, shape, batch);
  const Index position = (floor_div(offset, kQueryBlock) + number) * kQueryBlock;
  QueryBlock block;
  block.first = std::max<Index>(position - offset, 0);
  block.rows = std::min(position + kQueryBlock - offset, shape.seq_q) - block.first;
  const Index keys = keys_of(visibility, shape, batch);
  const Index begin = key_range(visibility, keys, block.first + offset).begin;
  const Index end = std::min(keys, key_range(visibility, keys, block.first + block.rows - 1 + offset).end);
  if (begin < end) {
    block.first_key_block = begin / kKeyBlock;
    block.last_key_block = ceil_div(end, kKeyBlock);
  }
  return block;
}

template <class T>
struct QueryPacker {
  using A = Accumulated<T>;
  const AttentionProblem<T>& problem;
  const AttentionShape& shape;
  const TensorView<const T, 4>& grad_context;
  const AttentionSaved<T>& saved;
  const BackwardFunctions<A>& functions;
  TileShape tile;
  bool with_dropout;

  // Elements that one packed block takes.
  Index elements() const {
    const Index height = round_up(kQueryBlock, tile.rows);
    const Index padded = padded_width(shape.head_dim) + padded_width(shape.v_head_dim);
    return height * (shape.head_dim + shape.v_head_dim) + kQueryBlock * padded + 3 * height;
  }
  Index padded_width(Index width) const { return PanelLayout{width, tile.width}.padded(); }

  // Packs rows of head (b, h) into `room` (elements() long, 64-byte aligned) and `rows` (kQueryBlock long). sinks,
  // where given, gets per row the sink's weight times delta.
  BackwardQueries<A> pack(Index b, Index h, const QueryBlock& block, A* room, TileRow<A>* rows, double* sinks) const {
    const Index d = shape.head_dim, dv = shape.v_head_dim, count = block.rows;
    const Index height = round_up(kQueryBlock, tile.rows);
    const PanelLayout over_d{d, tile.width}, over_dv{dv, tile.width};
    A* grad_panels = room;
    A* query_panels = grad_panels + kQueryBlock * over_dv.padded();
    A* query_slivers = query_panels + kQueryBlock * over_d.padded();
    A* grad_slivers = query_slivers + height * d;
    A* max = grad_slivers + height * dv;
    A* inverse = max + height;
    A* delta = inverse + height;

    ScratchFrame frame;
    A* scaled = frame.take<A>(count * d);
    widen_rows(rows_matrix(problem.inputs.queries, b, h, block), score_scale(problem.rule, shape), scaled);
    const Matrix<A> scaled_rows{scaled, count, d, d, 1};
    const auto grads = rows_matrix(grad_context, b, h, block);
    A* context_slivers = frame.take<A>(height * dv);
    bool finite = pack_slivers(scaled_rows, tile.rows, A{1}, query_slivers);
    finite = pack_slivers(grads, tile.rows, A{1}, grad_slivers) && finite;
    pack_panels(scaled_rows, over_d, kQueryBlock, query_panels);
    pack_panels(grads, over_dv, kQueryBlock, grad_panels);
    pack_slivers(rows_matrix(saved.context, b, h, block), tile.rows, A{1}, context_slivers);
    functions.delta(grad_slivers, context_slivers, dv, count, delta);
    fill_rows(b, h, block, rows, max, inverse);
    for (Index r = 0; sinks != nullptr && r < count; ++r) {
      const A weight = canonical_exp<A>(rows[r].sink - max[r]) * inverse[r];
      sinks[r] = inverse[r] == 0 ? 0.0 : static_cast<double>(weight) * static_cast<double>(delta[r]);
    }
    return {query_slivers, grad_slivers, query_panels, grad_panels, rows, max, inverse, delta, count, finite};
  }

 private:
  template <class E>
  static Matrix<E> rows_matrix(const TensorView<const E, 4>& view, Index b, Index h, const QueryBlock& block) {
    const auto rows = view.select(0, b).select(0, h);
    return {rows.data() + block.first * rows.stride(0), block.rows, rows.size(1), rows.stride(0), rows.stride(1)};
  }

  static void widen_rows(const Matrix<T>& from, A factor, A* to) {
    for (Index r = 0; r < from.rows; ++r) {
      const T* row = from.data + r * from.row_stride;
      for (Index k = 0; k < from.columns; ++k)
        to[r * from.columns + k] = widen<A>(row[k * from.column_stride]) * factor;
    }
  }

  void fill_rows(Index b, Index h, const QueryBlock& block, TileRow<A>* rows, A* max, A* inverse) const {
    const DropoutStream stream = with_dropout ? dropout_stream(problem.dropout, b, h) : DropoutStream{};
    for (Index r = 0; r < block.rows; ++r) {
      const Index i = block.first + r;
      rows[r] = tile_row(problem, shape, b, h, i, stream);
      const A sum = saved.row_sum(b, h, i);
      max[r] = sum == 0 ? A{0} : saved.row_max(b, h, i);
      inverse[r] = sum == 0 ? A{0} : A{1} / sum;
    }
  }
};

}  // namespace headwise

#endif  // HEADWISE_KERNELS_QUERY_PACKING_H_
