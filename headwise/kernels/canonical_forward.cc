// SPDX-License-Identifier: Apache-2.0
// Forward of the canonical program. The order of every operation is the contract; do not simplify.
#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/kernels/canonical.h"
#include "headwise/kernels/dropout.h"
#include "headwise/kernels/exponential.h"
#include "headwise/kernels/row_statistics.h"

namespace headwise::canonical {
namespace {

template <class A>
constexpr A kInfinity = std::numeric_limits<A>::infinity();

// Running (maximum, sum, context) of a row; blocks are folded into it left to right.
template <class A>
struct Fold {
  bool empty = true;
  A max = -kInfinity<A>, sum = 0;
  std::vector<A> context;

  void add(A block_max, A block_sum, const std::vector<A>& block_context) {
    if (empty) {
      empty = false;
      max = block_max;
      sum = block_sum;
      context = block_context;
      return;
    }
    const A new_max = std::max(max, block_max);
    const A keep = canonical_exp<A>(max - new_max), join = canonical_exp<A>(block_max - new_max);
    sum = std::fma(sum, keep, block_sum * join);
    for (std::size_t d = 0; d < context.size(); ++d) {
      context[d] = std::fma(context[d], keep, block_context[d] * join);
    }
    max = new_max;
  }
};

template <class A>
struct WeightBlock {
  Index begin = 0, end = 0;
  A max = 0, sum = 0;
  A exps[kKeyBlock];  // exp(score - max), 0 where hidden
};

template <class A>
A sum_in_lanes(const ScoreBlock<A>& scores, const WeightBlock<A>& block, Index start) {
  A lanes[kSumLanes] = {};
  for (Index j = scores.begin; j < scores.end; ++j) lanes[j % kSumLanes] += block.exps[j - start];
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// Softmax of one block by itself. A block whose sum is 0 has no visible key.
template <class A>
WeightBlock<A> block_softmax(const ScoreBlock<A>& scores, Index block) {
  const Index start = block * kKeyBlock;
  WeightBlock<A> out;
  out.begin = scores.begin;
  out.end = scores.end;
  A max = -kInfinity<A>;
  bool nan = false;
  for (Index j = scores.begin; j < scores.end; ++j) {
    const A score = scores.scores[j - start];
    nan = nan || std::isnan(score);
    max = score > max ? score : max;
  }
  out.max = max + A{0};  // -0 becomes +0
  const A shift = max == -kInfinity<A> ? A{0} : out.max;
  for (Index j = scores.begin; j < scores.end; ++j) {
    out.exps[j - start] = scores.visible[j - start] ? canonical_exp<A>(scores.scores[j - start] - shift) : A{0};
  }
  out.sum = sum_in_lanes(scores, out, start);
  if (nan) out.max = std::numeric_limits<A>::quiet_NaN();
  return out;
}

template <class A>
std::vector<A> block_context(const AttentionProblem<A>& problem, const AttentionShape& shape, const RowContext<A>& row,
                             const ScoreBlock<A>& scores, const WeightBlock<A>& weights, Index block) {
  const std::uint32_t threshold = dropout_threshold(problem.dropout.probability);
  const DropoutStream stream = dropout_stream(problem.dropout, row.batch, row.head);
  const Index start = block * kKeyBlock;
  std::vector<A> context(shape.v_head_dim, A{0});
  for (Index j = scores.begin; j < scores.end; ++j) {
    if (!scores.visible[j - start]) continue;
    A weight = weights.exps[j - start];
    if (threshold > 0 && dropout_draw(stream, row.position, j) < threshold) weight = 0;
    for (Index d = 0; d < shape.v_head_dim; ++d) {
      context[d] = std::fma(weight, problem.inputs.values(row.batch, row.kv_head, j, d), context[d]);
    }
  }
  for (A& value : context) value += A{0};  // -0 becomes +0
  return context;
}

template <class A>
void write_weights(const AttentionProblem<A>& problem, const AttentionShape& shape, const AttentionOutputs<A>& outputs,
                   const RowContext<A>& row, const std::vector<WeightBlock<A>>& blocks, const Fold<A>& fold,
                   double* received) {
  std::vector<A> weights(shape.seq_kv, A{0});
  const A inverse = fold.empty ? A{0} : A{1} / fold.sum;
  for (const WeightBlock<A>& block : blocks) {
    const Index start = block.begin / kKeyBlock * kKeyBlock;
    const A factor = canonical_exp<A>(block.max - fold.max) * inverse;
    for (Index j = block.begin; j < block.end; ++j) weights[j] = block.exps[j - start] * factor;
  }
  if (std::isnan(fold.sum)) poison_row(problem, row.batch, row.head, row.row, row.range, std::span<A>(weights));
  write_row_statistics(outputs.statistics, std::span<const A>(weights), row.position, row.batch, row.head, row.row,
                       received);
  if (!outputs.weights) return;
  const std::uint32_t threshold = outputs.weights_after_dropout ? dropout_threshold(problem.dropout.probability) : 0;
  const DropoutStream stream = dropout_stream(problem.dropout, row.batch, row.head);
  const A keep_scale = static_cast<A>(dropout_keep_scale(threshold));
  for (Index j = 0; j < shape.seq_kv; ++j) {
    A weight = weights[j];
    if (threshold > 0) weight = dropout_draw(stream, row.position, j) < threshold ? A{0} : weight * keep_scale;
    outputs.weights(row.batch, row.head, row.row, j) = weight;
  }
}

template <class A>
void write_row(const AttentionProblem<A>& problem, const AttentionOutputs<A>& outputs, const RowContext<A>& row,
               const Fold<A>& fold) {
  const Index b = row.batch, h = row.head, i = row.row;
  const std::uint32_t threshold = dropout_threshold(problem.dropout.probability);
  const A keep_scale = static_cast<A>(dropout_keep_scale(threshold));
  A factor = fold.empty ? A{0} : A{1} / fold.sum;
  if (threshold > 0) factor = factor * keep_scale;
  for (Index d = 0; d < outputs.context.size(3); ++d) {
    const A value = fold.empty ? A{0} : fold.context[d] * factor;
    outputs.context(b, h, i, d) = value;
    if (outputs.unrounded_context) outputs.unrounded_context(b, h, i, d) = value;
  }
  const A max = std::isnan(fold.sum) ? fold.sum : fold.max;
  if (outputs.row_max) outputs.row_max(b, h, i) = max;
  if (outputs.row_sum) outputs.row_sum(b, h, i) = fold.sum;
  if (outputs.logsumexp) outputs.logsumexp(b, h, i) = row_logsumexp(max, fold.sum);
}

// Folds every block of a row into `fold`; returns the blocks with a visible key.
template <class A>
std::vector<WeightBlock<A>> fold_row(const AttentionProblem<A>& problem, const AttentionShape& shape,
                                     const RowContext<A>& row, Fold<A>& fold) {
  std::vector<WeightBlock<A>> kept;
  const bool has_sink = static_cast<bool>(problem.rule.sinks);
  ScoreBlock<A> scores;
  for (Index block = row.range.begin / kKeyBlock; block * kKeyBlock < row.range.end; ++block) {
    compute_scores(problem, shape, row, block, scores);
    const WeightBlock<A> weights = block_softmax(scores, block);
    if (weights.sum == 0) continue;
    if (has_sink && fold.empty) {
      fold.add(problem.rule.sinks(row.head) + A{0}, A{1}, std::vector<A>(shape.v_head_dim, A{0}));
    }
    fold.add(weights.max, weights.sum, block_context(problem, shape, row, scores, weights, block));
    kept.push_back(weights);
  }
  return kept;
}

template <class A>
void forward_row(const AttentionProblem<A>& problem, const AttentionShape& shape, const AttentionOutputs<A>& outputs,
                 const RowContext<A>& row, double* received) {
  Fold<A> fold;
  const std::vector<WeightBlock<A>> kept = fold_row(problem, shape, row, fold);
  write_row(problem, outputs, row, fold);
  if (outputs.weights || received != nullptr || wants_row_statistics(outputs.statistics)) {
    write_weights(problem, shape, outputs, row, kept, fold, received);
  }
}

}  // namespace

template <class A>
RowContext<A> row_context(const AttentionProblem<A>& problem, const AttentionShape& shape, Index b, Index h, Index i) {
  RowContext<A> row{b, h, i, h / (shape.heads / shape.kv_heads), 0, {}, {}};
  row.position = i + query_offset_of(problem.visibility, shape, b);
  row.range = key_range(problem.visibility, keys_of(problem.visibility, shape, b), row.position);
  const A scale = score_scale(problem.rule, shape);
  row.scaled_query.resize(shape.head_dim);
  for (Index d = 0; d < shape.head_dim; ++d) row.scaled_query[d] = problem.inputs.queries(b, h, i, d) * scale;
  return row;
}

template <class A>
void compute_scores(const AttentionProblem<A>& problem, const AttentionShape& shape, const RowContext<A>& row,
                    Index block, ScoreBlock<A>& out) {
  const ScoreRule<A>& rule = problem.rule;
  const Index start = block * kKeyBlock, b = row.batch, h = row.head, i = row.row;
  out.begin = std::max(row.range.begin, start);
  out.end = std::min(row.range.end, start + kKeyBlock);
  for (Index j = out.begin; j < out.end; ++j) {
    A score = 0;
    for (Index d = 0; d < shape.head_dim; ++d) {
      score = std::fma(row.scaled_query[d], problem.inputs.keys(b, row.kv_head, j, d), score);
    }
    if (rule.softcap) {
      const A cap = static_cast<A>(*rule.softcap);
      score = cap * canonical_tanh<A>(score * (A{1} / cap));
    }
    out.capped[j - start] = score;
    bool visible = !problem.visibility.mask || at_broadcast(problem.visibility.mask, b, h, i, j);
    if (rule.alibi_slopes) {
      score = std::fma(-rule.alibi_slopes(h), static_cast<A>(std::abs(row.position - j)), score);
    }
    if (rule.bias) {
      const A bias = at_broadcast(rule.bias, b, h, i, j);
      visible = visible && bias != -kInfinity<A>;
      score = score + bias;
    }
    visible = visible && score != -kInfinity<A>;
    out.scores[j - start] = visible ? score : -kInfinity<A>;
    out.visible[j - start] = visible;
  }
}

template <class A>
void attention_forward(const AttentionProblem<A>& problem, const AttentionShape& shape,
                       const AttentionOutputs<A>& outputs, const Execution& execution) {
  const TensorView<A, 3>& received = outputs.statistics.received;
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index h = 0; h < shape.heads; ++h) {
      std::vector<double> sums(shape.seq_kv, 0.0);
      for (Index i = 0; i < shape.seq_q; ++i) {
        if (execution.cancelled()) throw Cancelled();
        forward_row(problem, shape, outputs, row_context(problem, shape, b, h, i), received ? sums.data() : nullptr);
      }
      for (Index j = 0; received && j < shape.seq_kv; ++j) received(b, h, j) = static_cast<A>(sums[j]);
    }
  }
}

template <class A>
void attention_accumulate(const AttentionProblem<A>& problem, const AttentionShape& shape,
                          const AttentionCarry<A>& carry, const Execution& execution) {
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index h = 0; h < shape.heads; ++h) {
      for (Index i = 0; i < shape.seq_q; ++i) {
        if (execution.cancelled()) throw Cancelled();
        Fold<A> fold;
        fold.empty = carry.row_sum(b, h, i) == 0;
        fold.sum = carry.row_sum(b, h, i);
        fold.max = fold.empty ? -kInfinity<A> : carry.row_max(b, h, i);
        fold.context.assign(shape.v_head_dim, A{0});
        for (Index d = 0; !fold.empty && d < shape.v_head_dim; ++d) fold.context[d] = carry.context(b, h, i, d);
        fold_row(problem, shape, row_context(problem, shape, b, h, i), fold);
        carry.row_sum(b, h, i) = fold.sum;
        carry.row_max(b, h, i) = fold.max;
        for (Index d = 0; d < shape.v_head_dim; ++d) carry.context(b, h, i, d) = fold.context[d];
      }
    }
  }
}

#define HEADWISE_CANONICAL_FORWARD(A)                                                                             \
  template RowContext<A> row_context(const AttentionProblem<A>&, const AttentionShape&, Index, Index, Index);     \
  template void compute_scores(const AttentionProblem<A>&, const AttentionShape&, const RowContext<A>&, Index,    \
                               ScoreBlock<A>&);                                                                   \
  template void attention_accumulate(const AttentionProblem<A>&, const AttentionShape&, const AttentionCarry<A>&, \
                                     const Execution&);                                                           \
  template void attention_forward(const AttentionProblem<A>&, const AttentionShape&, const AttentionOutputs<A>&,  \
                                  const Execution&);
HEADWISE_CANONICAL_FORWARD(float)
HEADWISE_CANONICAL_FORWARD(double)
#undef HEADWISE_CANONICAL_FORWARD

}  // namespace headwise::canonical
