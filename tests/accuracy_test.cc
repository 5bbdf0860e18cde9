// SPDX-License-Identifier: Apache-2.0
// The canonical program against the reference in double: each tensor's largest error stays within a few epsilon of the
// largest sum of absolute terms behind it.
#include <gtest/gtest.h>

#include <algorithm>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/positions.h"
#include "headwise/kernels/reference.h"
#include "headwise/kernels/widened.h"
#include "tests/random_problem.h"
#include "tests/support/case_count.h"

namespace headwise {
namespace {

using testing::RandomProblem;

// Largest sums of absolute terms behind context and gradients, with what the scores' own rounding adds.
struct Peaks {
  double context = 0, queries = 0, keys = 0, values = 0;
};

template <class T>
Peaks peaks_of(const RandomProblem<T>& p, const AttentionProblem<double>& wide, const AttentionShape& s) {
  Tensor<double, 4> keys({s.batch, s.kv_heads, s.seq_kv, s.head_dim}),
      values({s.batch, s.kv_heads, s.seq_kv, s.v_head_dim});
  Peaks peaks;
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      const Index g = h / (s.heads / s.kv_heads);
      for (Index i = 0; i < s.seq_q; ++i) {
        const reference::Row row = reference::compute_row(wide, s, b, h, i);
        double spread = 1;  // how much a relative error of the scores grows in the weights
        for (double score : row.scores) spread = std::max(spread, std::fabs(score));
        const double scale = std::fabs(score_scale(p.problem.rule, s));
        for (Index j : row.keys) {
          double terms = 0;
          for (Index d = 0; d < s.head_dim; ++d) {
            terms += std::fabs(wide.inputs.queries(b, h, i, d) * wide.inputs.keys(b, g, j, d));
          }
          spread = std::max(spread, scale * terms);
        }
        double delta = 0;
        std::vector<double> grad_weights(row.keys.size(), 0.0);
        for (std::size_t n = 0; n < row.keys.size(); ++n) {
          for (Index d = 0; d < s.v_head_dim; ++d) {
            const double grad = std::fabs(widen<double>(p.grad_context.view(b, h, i, d)));
            grad_weights[n] += row.kept[n] * grad * std::fabs(wide.inputs.values(b, g, row.keys[n], d));
            values(b, g, row.keys[n], d) += spread * row.kept[n] * row.weights[n] * grad;
          }
          delta += row.weights[n] * grad_weights[n];
        }
        std::vector<double> context(s.v_head_dim, 0.0), queries(s.head_dim, 0.0);
        for (std::size_t n = 0; n < row.keys.size(); ++n) {
          const Index j = row.keys[n];
          const double grad_score = spread * row.weights[n] * (grad_weights[n] + delta) * scale;
          for (Index d = 0; d < s.v_head_dim; ++d) {
            context[d] += spread * row.kept[n] * row.weights[n] * std::fabs(wide.inputs.values(b, g, j, d));
          }
          for (Index d = 0; d < s.head_dim; ++d) {
            queries[d] += grad_score * std::fabs(wide.inputs.keys(b, g, j, d));
            keys(b, g, j, d) += grad_score * std::fabs(wide.inputs.queries(b, h, i, d));
          }
        }
        for (double term : context) peaks.context = std::max(peaks.context, term);
        for (double term : queries) peaks.queries = std::max(peaks.queries, term);
      }
    }
  }
  for (Index n = 0; n < keys.elements(); ++n) peaks.keys = std::max(peaks.keys, keys.data()[n]);
  for (Index n = 0; n < values.elements(); ++n) peaks.values = std::max(peaks.values, values.data()[n]);
  return peaks;
}

template <class A, int Rank>
double largest_error(const Tensor<double, Rank>& expected, const Tensor<A, Rank>& got) {
  double worst = 0;
  for (Index n = 0; n < expected.elements(); ++n) {
    worst = std::max(worst, std::fabs(expected.data()[n] - static_cast<double>(got.data()[n])));
  }
  return worst;
}

template <class T>
void run_cases(std::uint64_t first_seed, Index count) {
  constexpr double kEps = std::numeric_limits<T>::epsilon();
  testing::ProblemLimits limits;
  limits.with_nan = false;
  for (Index n = 0; n < count; ++n) {
    const RandomProblem<T> p(first_seed + n, limits);
    const AttentionShape& s = p.shape;
    const WideProblem<double, T> wide(p.problem);
    const Tensor<double, 4> wide_grad = widened<double>(TensorView<const T, 4>(p.grad_context.view));
    Tensor<double, 4> context({s.batch, s.heads, s.seq_q, s.v_head_dim}), queries(p.queries.view.shape()),
        keys(p.keys.view.shape()), values(p.values.view.shape());
    AttentionOutputs<double> expected;
    expected.context = context.view();
    reference::attention_forward(wide.problem, s, expected);
    reference::attention_backward(wide.problem, s, wide_grad.cview(),
                                  {queries.view(), keys.view(), values.view(), {}, {}, {}});

    Tensor<T, 4> got_context(context.shape()), got_queries(queries.shape()), got_keys(keys.shape()),
        got_values(values.shape());
    Tensor<T, 3> row_max({s.batch, s.heads, s.seq_q}), row_sum(row_max.shape());
    AttentionOutputs<T> outputs;
    outputs.context = got_context.view();
    outputs.row_max = row_max.view();
    outputs.row_sum = row_sum.view();
    attention_forward(p.problem, outputs);
    attention_backward<T>(p.problem, p.grad_context.view, {got_context.cview(), row_max.cview(), row_sum.cview()},
                          {got_queries.view(), got_keys.view(), got_values.view(), {}, {}, {}});

    const Peaks peaks = peaks_of(p, wide.problem, s);
    EXPECT_LE(largest_error(context, got_context), 8 * kEps * peaks.context) << p.description;
    EXPECT_LE(largest_error(values, got_values), 6 * kEps * peaks.values) << p.description;
    EXPECT_LE(largest_error(queries, got_queries), 6 * kEps * peaks.queries) << p.description;
    EXPECT_LE(largest_error(keys, got_keys), 6 * kEps * peaks.keys) << p.description;
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(Accuracy, FloatStaysWithinAFewEpsilonOfTheReference) { run_cases<float>(50001, testing::case_count(120)); }

TEST(Accuracy, DoubleStaysWithinAFewEpsilonOfTheReference) { run_cases<double>(60001, testing::case_count(40)); }

// A row of finfo.min is an exact uniform average, forward and backward: maximum and sum are kept apart.
TEST(Accuracy, ARowOfTheLowestNumberIsAUniformAverage) {
  constexpr Index kSeq = 300, kWidth = 16;
  testing::Dice dice(3);
  Tensor<float, 4> q({1, 1, 2, kWidth}), k({1, 1, kSeq, kWidth}), v({1, 1, kSeq, kWidth}), bias({1, 1, 2, kSeq});
  for (auto* tensor : {&q, &k, &v}) testing::fill(tensor->view(), [&] { return static_cast<float>(dice.normal()); });
  bias.fill(std::numeric_limits<float>::lowest());
  AttentionProblem<float> problem;
  problem.inputs = {q.cview(), k.cview(), v.cview()};
  problem.rule.bias = bias.cview();
  Tensor<float, 4> context({1, 1, 2, kWidth}), weights({1, 1, 2, kSeq}), grad({1, 1, 2, kWidth}), grad_q(q.shape()),
      grad_k(k.shape()), grad_v(v.shape());
  Tensor<float, 3> row_max({1, 1, 2}), row_sum({1, 1, 2});
  grad.fill(1.0F);
  AttentionOutputs<float> outputs;
  outputs.context = context.view();
  outputs.weights = weights.view();
  outputs.row_max = row_max.view();
  outputs.row_sum = row_sum.view();
  attention_forward(problem, outputs);
  attention_backward<float>(problem, grad.cview(), {context.cview(), row_max.cview(), row_sum.cview()},
                            {grad_q.view(), grad_k.view(), grad_v.view(), {}, {}, {}});
  for (Index j = 0; j < kSeq; ++j) {
    ASSERT_FLOAT_EQ(weights(0, 0, 1, j), 1.0F / kSeq);
    ASSERT_FLOAT_EQ(grad_v(0, 0, j, 3), 2.0F / kSeq);
  }
}

}  // namespace
}  // namespace headwise
