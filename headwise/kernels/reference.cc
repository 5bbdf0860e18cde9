// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/kernels/dropout.h"
#include "headwise/kernels/positions.h"

namespace headwise::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Index kv_head_of(const AttentionShape& shape, Index head) { return head / (shape.heads / shape.kv_heads); }

// Pass 1: the keys that every rule leaves visible.
void find_visible_keys(const AttentionProblem<double>& problem, const AttentionShape& shape, Index b, Index h, Index i,
                       Row& row) {
  const Visibility& visibility = problem.visibility;
  row.position = i + query_offset_of(visibility, shape, b);
  const KeyRange range = key_range(visibility, keys_of(visibility, shape, b), row.position);
  for (Index j = range.begin; j < range.end; ++j) {
    if (visibility.mask && !at_broadcast(visibility.mask, b, h, i, j)) continue;
    if (problem.rule.bias && at_broadcast(problem.rule.bias, b, h, i, j) == -kInfinity) continue;
    row.keys.push_back(j);
  }
}

// Pass 2: score = softcap(scale * q . k) + bias - slope * |position - key|.
void compute_scores(const AttentionProblem<double>& problem, const AttentionShape& shape, Index b, Index h, Index i,
                    Row& row) {
  const ScoreRule<double>& rule = problem.rule;
  const double scale = score_scale(rule, shape);
  for (Index j : row.keys) {
    double dot = 0;
    for (Index d = 0; d < shape.head_dim; ++d) {
      dot += problem.inputs.queries(b, h, i, d) * problem.inputs.keys(b, kv_head_of(shape, h), j, d);
    }
    double capped = scale * dot;
    if (rule.softcap) capped = *rule.softcap * std::tanh(capped / *rule.softcap);
    double score = capped;
    if (rule.bias) score += at_broadcast(rule.bias, b, h, i, j);
    if (rule.alibi_slopes) score -= rule.alibi_slopes(h) * static_cast<double>(std::abs(row.position - j));
    row.capped.push_back(capped);
    row.scores.push_back(score);
  }
}

// Pass 3: softmax over the visible keys and the sink. A score of -inf has weight 0, whatever the others are.
void compute_weights(const AttentionProblem<double>& problem, Index h, Row& row) {
  const bool has_sink = static_cast<bool>(problem.rule.sinks);
  row.row_max = -kInfinity;
  for (double score : row.scores) row.row_max = std::isnan(score) ? score : std::max(row.row_max, score);
  const bool sees_nothing = row.row_max == -kInfinity;
  if (has_sink && !sees_nothing) row.row_max = std::max(row.row_max, problem.rule.sinks(h));
  row.row_sum = 0;
  for (double score : row.scores) {
    row.weights.push_back(score == -kInfinity ? 0.0 : std::exp(score - row.row_max));
    row.row_sum += row.weights.back();
  }
  if (sees_nothing) return;
  if (has_sink) {
    row.sink_weight = std::exp(problem.rule.sinks(h) - row.row_max);
    row.row_sum += row.sink_weight;
  }
  for (double& weight : row.weights) weight /= row.row_sum;
  row.sink_weight /= row.row_sum;
}

// Pass 4: which weights dropout keeps, and what it multiplies them by.
void draw_dropout(const AttentionProblem<double>& problem, Index b, Index h, Row& row) {
  row.kept.assign(row.keys.size(), 1.0);
  const std::uint32_t threshold = dropout_threshold(problem.dropout.probability);
  if (threshold == 0) return;
  const DropoutStream stream = dropout_stream(problem.dropout, b, h);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const bool dropped = dropout_draw(stream, row.position, row.keys[n]) < threshold;
    row.kept[n] = dropped ? 0.0 : dropout_keep_scale(threshold);
  }
}

// The k heaviest keys; among equal weights the lower key first.
void write_top_keys(const Row& row, TensorView<std::int64_t, 1> out) {
  std::vector<std::size_t> order(row.keys.size());
  for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return row.weights[a] > row.weights[b]; });
  for (Index k = 0; k < out.size(0); ++k) {
    out(k) = k < static_cast<Index>(order.size()) && row.row_sum != 0 ? row.keys[order[k]] : -1;
  }
}

double weight_on(const Row& row, Index key) {
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    if (row.keys[n] == key) return row.weights[n];
  }
  return 0;
}

void write_statistics(const AttentionStatistics<double>& out, const Row& row, Index b, Index h, Index i) {
  double entropy = 0, heaviest = 0, distance = 0;
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const double weight = row.weights[n];
    if (weight != 0) entropy -= weight * std::log(weight);
    heaviest = std::isnan(weight) ? weight : std::max(heaviest, weight);
    distance += weight * static_cast<double>(std::abs(row.position - row.keys[n]));
    if (out.received) out.received(b, h, row.keys[n]) += weight;
  }
  if (out.entropy) out.entropy(b, h, i) = entropy;
  if (out.max_weight) out.max_weight(b, h, i) = heaviest;
  if (out.distance) out.distance(b, h, i) = distance;
  if (out.self) out.self(b, h, i) = weight_on(row, row.position);
  if (out.previous) out.previous(b, h, i) = weight_on(row, row.position - 1);
  if (out.next) out.next(b, h, i) = weight_on(row, row.position + 1);
  if (out.first) out.first(b, h, i) = weight_on(row, 0);
  if (out.top_keys) write_top_keys(row, out.top_keys.select(0, b).select(0, h).select(0, i));
}

void write_row(const AttentionProblem<double>& problem, const AttentionShape& shape,
               const AttentionOutputs<double>& outputs, const Row& row, Index b, Index h, Index i) {
  for (Index d = 0; d < shape.v_head_dim; ++d) {
    double sum = 0;
    for (std::size_t n = 0; n < row.keys.size(); ++n) {
      if (row.row_sum == 0) break;  // every score was -inf: nothing is read
      sum += row.kept[n] * row.weights[n] * problem.inputs.values(b, kv_head_of(shape, h), row.keys[n], d);
    }
    outputs.context(b, h, i, d) = sum;
    if (outputs.unrounded_context) outputs.unrounded_context(b, h, i, d) = sum;
  }
  if (outputs.logsumexp) outputs.logsumexp(b, h, i) = row.row_max + std::log(row.row_sum);
  if (outputs.row_max) outputs.row_max(b, h, i) = row.row_max;
  if (outputs.row_sum) outputs.row_sum(b, h, i) = row.row_sum;
  if (outputs.weights) {
    for (Index j = 0; j < shape.seq_kv; ++j) outputs.weights(b, h, i, j) = 0;
    for (std::size_t n = 0; n < row.keys.size(); ++n) {
      outputs.weights(b, h, i, row.keys[n]) = row.weights[n] * (outputs.weights_after_dropout ? row.kept[n] : 1.0);
    }
  }
  write_statistics(outputs.statistics, row, b, h, i);
}

template <int Rank>
void clear(const TensorView<double, Rank>& view) {
  if (!view) return;
  for (Index i = 0; i < view.size(0); ++i) {
    if constexpr (Rank == 1) {
      view(i) = 0;
    } else {
      clear(view.select(0, i));
    }
  }
}

// Backward of one row, in the order of the forward's lines, last first.
void backward_row(const AttentionProblem<double>& problem, const AttentionShape& shape, const Row& row, Index b,
                  Index h, Index i, TensorView<const double, 4> grad_context,
                  const AttentionGradients<double>& gradients) {
  const ScoreRule<double>& rule = problem.rule;
  const Index g = kv_head_of(shape, h);
  if (row.row_sum == 0) return;
  // context = sum of kept * weight * value
  std::vector<double> grad_weights(row.keys.size(), 0.0);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    for (Index d = 0; d < shape.v_head_dim; ++d) {
      const double grad = grad_context(b, h, i, d);
      grad_weights[n] += row.kept[n] * grad * problem.inputs.values(b, g, row.keys[n], d);
      if (gradients.values) gradients.values(b, g, row.keys[n], d) += row.kept[n] * row.weights[n] * grad;
    }
  }
  // weight = exp(score - max) / sum, with the sink in the sum
  double delta = 0;
  for (std::size_t n = 0; n < row.keys.size(); ++n) delta += row.weights[n] * grad_weights[n];
  if (gradients.sinks) gradients.sinks(h) -= row.sink_weight * delta;
  const double scale = score_scale(rule, shape);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const Index j = row.keys[n];
    double grad_score = row.weights[n] * (grad_weights[n] - delta);
    // score = capped + bias - slope * distance
    if (gradients.bias) at_broadcast(gradients.bias, b, h, i, j) += grad_score;
    if (gradients.alibi_slopes)
      gradients.alibi_slopes(h) -= grad_score * static_cast<double>(std::abs(row.position - j));
    // capped = softcap * tanh(scale * dot / softcap)
    if (rule.softcap) grad_score *= 1.0 - (row.capped[n] / *rule.softcap) * (row.capped[n] / *rule.softcap);
    // dot = q . k
    for (Index d = 0; d < shape.head_dim; ++d) {
      if (gradients.queries) gradients.queries(b, h, i, d) += scale * grad_score * problem.inputs.keys(b, g, j, d);
      if (gradients.keys) gradients.keys(b, g, j, d) += scale * grad_score * problem.inputs.queries(b, h, i, d);
    }
  }
}

template <class Body>
void for_each_row(const AttentionShape& shape, const Body& body) {
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index h = 0; h < shape.heads; ++h) {
      for (Index i = 0; i < shape.seq_q; ++i) body(b, h, i);
    }
  }
}

}  // namespace

Row compute_row(const AttentionProblem<double>& problem, const AttentionShape& shape, Index b, Index h, Index i) {
  Row row;
  find_visible_keys(problem, shape, b, h, i, row);
  compute_scores(problem, shape, b, h, i, row);
  compute_weights(problem, h, row);
  draw_dropout(problem, b, h, row);
  return row;
}

void attention_forward(const AttentionProblem<double>& problem, const AttentionShape& shape,
                       const AttentionOutputs<double>& outputs) {
  clear(outputs.statistics.received);
  for_each_row(shape, [&](Index b, Index h, Index i) {
    write_row(problem, shape, outputs, compute_row(problem, shape, b, h, i), b, h, i);
  });
}

void attention_backward(const AttentionProblem<double>& problem, const AttentionShape& shape,
                        TensorView<const double, 4> grad_context, const AttentionGradients<double>& gradients) {
  clear(gradients.queries);
  clear(gradients.keys);
  clear(gradients.values);
  clear(gradients.bias);
  clear(gradients.alibi_slopes);
  clear(gradients.sinks);
  for_each_row(shape, [&](Index b, Index h, Index i) {
    backward_row(problem, shape, compute_row(problem, shape, b, h, i), b, h, i, grad_context, gradients);
  });
}

}  // namespace headwise::reference
