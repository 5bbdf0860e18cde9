// SPDX-License-Identifier: Apache-2.0
// What a finished row of a tile leaves behind: context, maximum, sum, and the taps.
#ifndef HEADWISE_KERNELS_ROW_RESULTS_H_
#define HEADWISE_KERNELS_ROW_RESULTS_H_

#include "headwise/kernels/exponential.h"
#include "headwise/kernels/row_rules.h"
#include "headwise/kernels/row_statistics.h"

namespace headwise {

// Which row of the problem it is, and its place in the tile.
struct RowPlace {
  Index batch = 0, head = 0, row = 0;
};

template <class T>
void write_row_context(const TensorView<T, 4>& target, const RowPlace& at, const Accumulated<T>* context,
                       Accumulated<T> factor) {
  T* to = target.data() + at.batch * target.stride(0) + at.head * target.stride(1) + at.row * target.stride(2);
  const Index width = target.size(3), step = target.stride(3);
  if (step == 1) {
    for (Index d = 0; d < width; ++d) to[d] = narrow<T>(context[d] * factor);
  } else {
    for (Index d = 0; d < width; ++d) to[d * step] = narrow<T>(context[d] * factor);
  }
}

// context: (padded,), not yet divided by sum.
template <class T>
void write_row_results(const AttentionOutputs<T>& outputs, const RowPlace& at, const TileRules<Accumulated<T>>& rules,
                       const Accumulated<T>* context, Accumulated<T> max, Accumulated<T> sum) {
  using A = Accumulated<T>;
  A factor = sum == 0 ? A{0} : A{1} / sum;
  if (rules.dropout_threshold > 0) factor = factor * rules.keep_scale;
  write_row_context(outputs.context, at, context, factor);
  if (outputs.unrounded_context) write_row_context<A>(outputs.unrounded_context, at, context, factor);
  const A shown = std::isnan(sum) ? sum : max;
  if (outputs.row_max) outputs.row_max(at.batch, at.head, at.row) = shown;
  if (outputs.row_sum) outputs.row_sum(at.batch, at.head, at.row) = sum;
  if (outputs.logsumexp) outputs.logsumexp(at.batch, at.head, at.row) = row_logsumexp(shown, sum);
}

// Turns exp(score - block maximum) into weights, in place. exps: keys from 256 first_block on; block_max: its stride is
// `max_stride` per block.
template <class A>
void weights_from_exps(std::span<A> exps, const A* block_max, Index max_stride, A max, A sum) {
  const A inverse = sum == 0 ? A{0} : A{1} / sum;
  const auto count = static_cast<Index>(exps.size());
  for (Index start = 0, block = 0; start < count; start += kKeyBlock, ++block) {
    const A factor = sum == 0 ? A{0} : canonical_exp<A>(block_max[block * max_stride] - max) * inverse;
    const Index end = std::min(start + kKeyBlock, count);
    for (Index j = start; j < end; ++j) exps[j] = exps[j] * factor;
  }
}

// Writes weights of keys [first, first + weights.size()) and 0 elsewhere.
template <class T>
void write_row_weights(const AttentionOutputs<T>& outputs, const RowPlace& at, const TileRow<Accumulated<T>>& row,
                       const TileRules<Accumulated<T>>& rules, std::span<const Accumulated<T>> weights, Index first) {
  using A = Accumulated<T>;
  const TensorView<T, 1> out = outputs.weights.select(0, at.batch).select(0, at.head).select(0, at.row);
  const auto count = static_cast<Index>(weights.size());
  const bool drop = outputs.weights_after_dropout && rules.dropout_threshold > 0;
  for (Index j = 0; j < out.size(0); ++j) {
    A weight = j >= first && j < first + count ? weights[j - first] : A{0};
    if (drop) {
      weight = dropout_draw(row.dropout, row.position, j) < rules.dropout_threshold ? A{0} : weight * rules.keep_scale;
    }
    out(j) = narrow<T>(weight);
  }
}

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ROW_RESULTS_H_
