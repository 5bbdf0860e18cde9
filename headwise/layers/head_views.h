// SPDX-License-Identifier: Apache-2.0
// The kernel's problem as views of a layer's projections: heads are split and swapped by strides, nothing is copied.
#ifndef HEADWISE_LAYERS_HEAD_VIEWS_H_
#define HEADWISE_LAYERS_HEAD_VIEWS_H_

#include "headwise/layers/activations.h"
#include "headwise/layers/attention_config.h"

namespace headwise {

// (batch, seq, rows) -> the heads of some of its rows, (batch, heads, seq, head_dim).
template <class T>
TensorView<T, 4> heads_of(TensorView<T, 3> projected, Index first_row, Index rows, Index heads) {
  return projected.slice(2, first_row, first_row + rows).split(2, heads).transpose(1, 2);
}

// Queries, keys and values by head.
template <class T>
struct HeadViews {
  TensorView<T, 4> queries;       // (batch, heads, seq_q, head_dim)
  TensorView<T, 4> keys, values;  // (batch, kv_heads, seq_kv, head_dim)
};

// `projected_keys_values` is not given in self-attention, where `projected` holds all three.
template <class T>
HeadViews<T> head_views(const AttentionSizes& sizes, TensorView<T, 3> projected,
                        TensorView<T, 3> projected_keys_values) {
  const Index query_width = sizes.query_width(), kv_width = sizes.kv_width();
  const bool cross = static_cast<bool>(projected_keys_values);
  const TensorView<T, 3> source = cross ? projected_keys_values : projected;
  const Index first = cross ? 0 : query_width;
  return {heads_of(projected, 0, query_width, sizes.heads), heads_of(source, first, kv_width, sizes.kv_heads),
          heads_of(source, first + kv_width, kv_width, sizes.kv_heads)};
}

// Queries and keys as rows of tokens: (batch, seq_q, heads * head_dim), (batch, seq_kv, kv_heads * head_dim).
template <class T>
struct ProjectedRows {
  TensorView<T, 3> queries, keys;
};

template <class T>
ProjectedRows<T> projected_rows(const AttentionSizes& sizes, TensorView<T, 3> projected,
                                TensorView<T, 3> projected_keys_values) {
  const Index query_width = sizes.query_width();
  const bool cross = static_cast<bool>(projected_keys_values);
  const Index first = cross ? 0 : query_width;
  return {projected.slice(2, 0, query_width),
          (cross ? projected_keys_values : projected).slice(2, first, first + sizes.kv_width())};
}

// The problem that a forward into `kept` solves, and its backward again.
template <class T>
AttentionProblem<T> attention_problem(const AttentionConfig& config, const AttentionSizes& sizes,
                                      const Activations<T>& kept) {
  const HeadViews<const T> heads = head_views<const T>(sizes, kept.projected.view(), kept.projected_keys_values.view());
  AttentionProblem<T> problem{
      {heads.queries, heads.keys, heads.values}, kept.options.rule, kept.options.visibility, kept.dropout};
  Visibility& visibility = problem.visibility;
  visibility.causal = visibility.causal || config.causal;
  const bool wider = visibility.window_left == -1 || visibility.window_left > config.window_left.value_or(-1);
  if (config.window_left && wider) visibility.window_left = *config.window_left;
  return problem;
}

}  // namespace headwise

#endif  // HEADWISE_LAYERS_HEAD_VIEWS_H_
