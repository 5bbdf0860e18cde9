// SPDX-License-Identifier: Apache-2.0
// From a problem to the rows that tiles work on.
#ifndef HEADWISE_KERNELS_TILE_ROWS_H_
#define HEADWISE_KERNELS_TILE_ROWS_H_

#include "headwise/kernels/row_rules.h"

namespace headwise {

template <class T>
void add_bias_row(const BiasRow& bias, Index first, Index count, Accumulated<T>* scores) {
  using A = Accumulated<T>;
  constexpr A kHidden = -std::numeric_limits<A>::infinity();
  const T* values = static_cast<const T*>(bias.data) + first * bias.stride;
  const auto add = [&](Index j, T stored) {
    const A value = widen<A>(stored);
    scores[j] = value == kHidden ? kHidden : scores[j] + value;
  };
  if (bias.stride == 1) {
    for (Index j = 0; j < count; ++j) add(j, values[j]);
  } else {
    for (Index j = 0; j < count; ++j) add(j, values[j * bias.stride]);
  }
}

template <class T>
TileRules<Accumulated<T>> tile_rules(const AttentionProblem<T>& problem) {
  using A = Accumulated<T>;
  TileRules<A> rules;
  rules.softcap = static_cast<A>(problem.rule.softcap.value_or(0));
  rules.has_mask = static_cast<bool>(problem.visibility.mask);
  rules.has_bias = static_cast<bool>(problem.rule.bias);
  rules.has_alibi = static_cast<bool>(problem.rule.alibi_slopes);
  rules.has_sink = static_cast<bool>(problem.rule.sinks);
  rules.dropout_threshold = dropout_threshold(problem.dropout.probability);
  rules.keep_scale = static_cast<A>(dropout_keep_scale(rules.dropout_threshold));
  rules.add_bias = &add_bias_row<T>;
  return rules;
}

// Address and last stride of row (b, h, i) of a view whose axes of length 1 stand for every index.
template <class T>
const T* broadcast_row(const TensorView<const T, 4>& view, Index b, Index h, Index i, Index* stride) {
  const Index index[] = {b, h, i};
  const T* at = view.data();
  for (int axis = 0; axis < 3; ++axis) at += view.size(axis) == 1 ? 0 : index[axis] * view.stride(axis);
  *stride = view.size(3) == 1 ? 0 : view.stride(3);
  return at;
}

template <class T>
TileRow<Accumulated<T>> tile_row(const AttentionProblem<T>& problem, const AttentionShape& shape, Index b, Index h,
                                 Index i, const DropoutStream& dropout) {
  TileRow<Accumulated<T>> row;
  row.position = i + query_offset_of(problem.visibility, shape, b);
  const KeyRange range = key_range(problem.visibility, keys_of(problem.visibility, shape, b), row.position);
  row.begin = range.begin;
  row.end = range.end;
  if (problem.visibility.mask) row.mask = broadcast_row(problem.visibility.mask, b, h, i, &row.mask_stride);
  if (problem.rule.bias) row.bias.data = broadcast_row(problem.rule.bias, b, h, i, &row.bias.stride);
  if (problem.rule.alibi_slopes) row.slope = problem.rule.alibi_slopes(h);
  if (problem.rule.sinks) row.sink = problem.rule.sinks(h);
  row.dropout = dropout;
  return row;
}

// Rows of one tile: rows [first_row, first_row + rows_per_head) of heads [first_head, first_head + heads).
struct TileRange {
  Index first_head = 0, heads = 0, first_row = 0, rows_per_head = 0;
  Index rows() const { return heads * rows_per_head; }
};

// How the rows of a group of heads that share keys are cut into tiles of at most `most` rows.
struct TileCut {
  Index heads = 0, seq_q = 0, heads_per_tile = 1, rows_per_tile = 0;

  TileCut(Index group_heads, Index rows, Index most) : heads(group_heads), seq_q(rows) {
    rows_per_tile = std::min(rows, most);
    if (rows > 0 && rows < most) heads_per_tile = std::min(most / rows, group_heads);
  }
  Index per_head() const { return rows_per_tile == 0 ? 0 : (seq_q + rows_per_tile - 1) / rows_per_tile; }
  Index tiles() const { return (heads + heads_per_tile - 1) / heads_per_tile * per_head(); }
  TileRange tile(Index number) const {
    TileRange range;
    range.first_head = number / per_head() * heads_per_tile;
    range.heads = std::min(heads_per_tile, heads - range.first_head);
    range.first_row = number % per_head() * rows_per_tile;
    range.rows_per_head = std::min(rows_per_tile, seq_q - range.first_row);
    return range;
  }
};

}  // namespace headwise

#endif  // HEADWISE_KERNELS_TILE_ROWS_H_
