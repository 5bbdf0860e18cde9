// SPDX-License-Identifier: Apache-2.0
// Backward of the canonical program, from the row maximum and row sum of any forward.
#include <cmath>
#include <limits>

#include "headwise/kernels/canonical.h"
#include "headwise/kernels/dropout.h"
#include "headwise/kernels/exponential.h"

namespace headwise::canonical {
namespace {

// Per row: what does not depend on the key.
template <class A>
struct BackwardRow {
  RowContext<A> context;
  A max = 0, inverse_sum = 0, delta = 0;
  bool empty = false;
  double sink = 0;   // minus what the row adds to the sink's gradient
  double alibi = 0;  // minus what the row adds to the slope's gradient; folded per key block
  double alibi_block = 0;
  std::vector<A> grad_query;
  bool started = false;  // grad_query holds the fold of at least one block
};

// A running sum over query blocks: the chain of the current block, and the fold of those before it.
template <class A>
struct BlockedSum {
  std::vector<A> chain, fold;
  bool started = false;
  explicit BlockedSum(Index size) : chain(size, A{0}), fold(size, A{0}) {}
  void close_block() {
    for (std::size_t d = 0; d < chain.size(); ++d) {
      const A value = chain[d] + A{0};  // -0 becomes +0
      fold[d] = started ? fold[d] + value : value;
      chain[d] = 0;
    }
    started = true;
  }
};

template <class A>
class Backward {
 public:
  Backward(const AttentionProblem<A>& problem, const AttentionShape& shape, TensorView<const A, 4> grad_context,
           const AttentionSaved<A>& saved, const AttentionGradients<A>& gradients, const Execution& execution)
      : problem_(problem),
        shape_(shape),
        grad_context_(grad_context),
        saved_(saved),
        gradients_(gradients),
        execution_(execution),
        threshold_(dropout_threshold(problem.dropout.probability)),
        keep_scale_(static_cast<A>(dropout_keep_scale(threshold_))),
        bias_sums_(gradients.bias ? gradients.bias.elements() : 0, 0.0),
        slope_sums_(shape.heads, 0.0),
        sink_sums_(shape.heads, 0.0) {}

  void run() {
    const Index group = shape_.kv_heads > 0 ? shape_.heads / shape_.kv_heads : 0;
    for (Index b = 0; b < shape_.batch; ++b) {
      for (Index g = 0; g < shape_.kv_heads; ++g) run_group(b, g, group);
    }
    store_sums();
  }

 private:
  BackwardRow<A> start_row(Index b, Index h, Index i) {
    BackwardRow<A> row;
    row.context = row_context(problem_, shape_, b, h, i);
    const A sum = saved_.row_sum(b, h, i);
    row.empty = sum == 0;
    row.max = row.empty ? A{0} : saved_.row_max(b, h, i);
    row.inverse_sum = row.empty ? A{0} : A{1} / sum;
    for (Index d = 0; d < shape_.v_head_dim; ++d) {
      row.delta = std::fma(grad_context_(b, h, i, d), saved_.context(b, h, i, d), row.delta);
    }
    if (problem_.rule.sinks && !row.empty) {
      const A weight = canonical_exp<A>(problem_.rule.sinks(h) - row.max) * row.inverse_sum;
      row.sink = static_cast<double>(weight) * static_cast<double>(row.delta);
    }
    row.grad_query.assign(shape_.head_dim, A{0});
    return row;
  }

  void run_group(Index b, Index g, Index group) {
    std::vector<BackwardRow<A>> rows;
    for (Index h = g * group; h < (g + 1) * group; ++h) {
      for (Index i = 0; i < shape_.seq_q; ++i) rows.push_back(start_row(b, h, i));
    }
    const Index keys = keys_of(problem_.visibility, shape_, b);
    for (Index block = 0; block * kKeyBlock < shape_.seq_kv; ++block) run_block(b, g, block, keys, rows);
    for (BackwardRow<A>& row : rows) finish_row(row);
  }

  void run_block(Index b, Index g, Index block, Index keys, std::vector<BackwardRow<A>>& rows) {
    const Index start = block * kKeyBlock, end = std::min(start + kKeyBlock, shape_.seq_kv);
    std::vector<BlockedSum<A>> grad_keys(end - start, BlockedSum<A>(shape_.head_dim));
    std::vector<BlockedSum<A>> grad_values(end - start, BlockedSum<A>(shape_.v_head_dim));
    Index open_head = -1, open_block = 0;
    const auto close = [&] {
      if (open_head < 0) return;
      for (Index j = start; j < std::min(end, keys); ++j) {
        grad_keys[j - start].close_block();
        grad_values[j - start].close_block();
      }
    };
    for (BackwardRow<A>& row : rows) {
      const Index query_block = floor_div(row.context.position, kQueryBlock);
      if (row.context.head != open_head || query_block != open_block) close();
      open_head = row.context.head;
      open_block = query_block;
      row_and_block(row, block, start, grad_keys, grad_values);
    }
    close();
    for (Index j = start; j < end; ++j) {
      for (Index d = 0; gradients_.keys && d < shape_.head_dim; ++d)
        gradients_.keys(b, g, j, d) = grad_keys[j - start].fold[d];
      for (Index d = 0; gradients_.values && d < shape_.v_head_dim; ++d) {
        gradients_.values(b, g, j, d) = grad_values[j - start].fold[d];
      }
    }
  }

  void row_and_block(BackwardRow<A>& row, Index block, Index start, std::vector<BlockedSum<A>>& grad_keys,
                     std::vector<BlockedSum<A>>& grad_values) {
    if (execution_.cancelled()) throw Cancelled();
    const RowContext<A>& at = row.context;
    if (at.range.begin >= std::min(at.range.end, start + kKeyBlock) || at.range.end <= start) return;
    ScoreBlock<A> scores;
    compute_scores(problem_, shape_, at, block, scores);
    const DropoutStream stream = dropout_stream(problem_.dropout, at.batch, at.head);
    std::vector<A> chain(shape_.head_dim, A{0});
    for (Index j = scores.begin; j < scores.end; ++j) {
      if (!scores.visible[j - start] || row.empty) continue;
      const bool dropped = threshold_ > 0 && dropout_draw(stream, at.position, j) < threshold_;
      const A weight = canonical_exp<A>(scores.scores[j - start] - row.max) * row.inverse_sum;
      A kept_weight = weight, grad_weight = 0;
      for (Index d = 0; d < shape_.v_head_dim; ++d) {
        grad_weight = std::fma(grad_context_(at.batch, at.head, at.row, d),
                               problem_.inputs.values(at.batch, at.kv_head, j, d), grad_weight);
      }
      if (threshold_ > 0) {
        kept_weight = dropped ? A{0} : weight * keep_scale_;
        grad_weight = dropped ? A{0} : grad_weight * keep_scale_;
      }
      A grad_score = weight * (grad_weight - row.delta);
      add_to_rule_gradients(row, j, grad_score);
      if (problem_.rule.softcap) {
        const A ratio = scores.capped[j - start] * (A{1} / static_cast<A>(*problem_.rule.softcap));
        grad_score = grad_score * std::fma(-ratio, ratio, A{1});
      }
      for (Index d = 0; d < shape_.v_head_dim; ++d) {
        A& sum = grad_values[j - start].chain[d];
        sum = std::fma(kept_weight, grad_context_(at.batch, at.head, at.row, d), sum);
      }
      for (Index d = 0; d < shape_.head_dim; ++d) {
        A& sum = grad_keys[j - start].chain[d];
        sum = std::fma(grad_score, at.scaled_query[d], sum);
        chain[d] = std::fma(grad_score, problem_.inputs.keys(at.batch, at.kv_head, j, d), chain[d]);
      }
    }
    for (Index d = 0; d < shape_.head_dim; ++d) {
      const A value = chain[d] + A{0};  // -0 becomes +0
      row.grad_query[d] = row.started ? row.grad_query[d] + value : value;
    }
    row.started = true;
    row.alibi += row.alibi_block;
    row.alibi_block = 0;
  }

  void add_to_rule_gradients(BackwardRow<A>& row, Index j, A grad_score) {
    const RowContext<A>& at = row.context;
    if (gradients_.bias) {
      const TensorView<A, 4>& bias = gradients_.bias;
      const Index index[] = {at.batch, at.head, at.row, j};
      Index flat = 0;
      for (int axis = 0; axis < 4; ++axis) flat = flat * bias.size(axis) + (bias.size(axis) == 1 ? 0 : index[axis]);
      bias_sums_[flat] += static_cast<double>(grad_score);
    }
    if (gradients_.alibi_slopes) {
      row.alibi_block += static_cast<double>(grad_score) * static_cast<double>(std::abs(at.position - j));
    }
  }

  void finish_row(const BackwardRow<A>& row) {
    const RowContext<A>& at = row.context;
    const A scale = score_scale(problem_.rule, shape_);
    for (Index d = 0; gradients_.queries && d < shape_.head_dim; ++d) {
      gradients_.queries(at.batch, at.head, at.row, d) = row.grad_query[d] * scale;
    }
    slope_sums_[at.head] -= row.alibi;
    sink_sums_[at.head] -= row.sink;
  }

  void store_sums() {
    Index flat = 0;
    const TensorView<A, 4>& bias = gradients_.bias;
    for (Index b = 0; b < bias.size(0); ++b) {
      for (Index h = 0; h < bias.size(1); ++h) {
        for (Index i = 0; i < bias.size(2); ++i) {
          for (Index j = 0; j < bias.size(3); ++j) bias(b, h, i, j) = static_cast<A>(bias_sums_[flat++]);
        }
      }
    }
    for (Index h = 0; h < shape_.heads; ++h) {
      if (gradients_.alibi_slopes) gradients_.alibi_slopes(h) = static_cast<A>(slope_sums_[h]);
      if (gradients_.sinks) gradients_.sinks(h) = static_cast<A>(sink_sums_[h]);
    }
  }

  const AttentionProblem<A>& problem_;
  const AttentionShape& shape_;
  TensorView<const A, 4> grad_context_;
  const AttentionSaved<A>& saved_;
  const AttentionGradients<A>& gradients_;
  const Execution& execution_;
  std::uint32_t threshold_;
  A keep_scale_;
  std::vector<double> bias_sums_, slope_sums_, sink_sums_;
};

}  // namespace

template <class A>
void attention_backward(const AttentionProblem<A>& problem, const AttentionShape& shape,
                        TensorView<const A, 4> grad_context, const AttentionSaved<A>& saved,
                        const AttentionGradients<A>& gradients, const Execution& execution) {
  Backward<A>(problem, shape, grad_context, saved, gradients, execution).run();
}

template void attention_backward(const AttentionProblem<float>&, const AttentionShape&, TensorView<const float, 4>,
                                 const AttentionSaved<float>&, const AttentionGradients<float>&, const Execution&);
template void attention_backward(const AttentionProblem<double>&, const AttentionShape&, TensorView<const double, 4>,
                                 const AttentionSaved<double>&, const AttentionGradients<double>&, const Execution&);

}  // namespace headwise::canonical
