// SPDX-License-Identifier: Apache-2.0
// Everything a problem gives, forward and backward, and the comparison of two such results bit for bit.
#ifndef HEADWISE_TESTS_SUPPORT_ATTENTION_RESULTS_H_
#define HEADWISE_TESTS_SUPPORT_ATTENTION_RESULTS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "headwise/kernels/attention.h"
#include "headwise/tensor/tensor.h"

namespace headwise::testing {

// Two NaNs count as equal: their payload is not part of the promise.
template <class T>
bool same_bits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) && std::isnan(b)) return true;
  } else if constexpr (!std::is_integral_v<T>) {
    if (std::isnan(to_float(a)) && std::isnan(to_float(b))) return true;
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Gives how many elements it compared.
template <class T, int Rank>
Index expect_same_bits(const TensorView<const T, Rank>& expected, const TensorView<const T, Rank>& got,
                       const char* what, const std::string& where) {
  if (expected.shape() != got.shape()) {
    ADD_FAILURE() << where << ": " << what << " has another shape";
    return 0;
  }
  const Tensor<T, Rank> a(expected), b(got);
  for (Index n = 0; n < a.elements(); ++n) {
    if (same_bits(a.data()[n], b.data()[n])) continue;
    ADD_FAILURE() << where << ": " << what << " differs first at flat index " << n << " of " << a.elements()
                  << ": expected " << widen<double>(a.data()[n]) << ", got " << widen<double>(b.data()[n]);
    break;
  }
  return a.elements();
}

template <class T, int Rank>
Index expect_same_bits(const Tensor<T, Rank>& expected, const Tensor<T, Rank>& got, const char* what,
                       const std::string& where) {
  return expect_same_bits(expected.cview(), got.cview(), what, where);
}

template <class T>
struct AttentionResults {
  using A = Accumulated<T>;
  Tensor<A, 4> unrounded_context;
  Tensor<T, 4> context, weights, grad_queries, grad_keys, grad_values, grad_bias;
  Tensor<A, 3> logsumexp, row_max, row_sum, entropy, received;
  Tensor<std::int64_t, 4> top_keys;
  Tensor<A, 1> grad_slopes, grad_sinks;

  // taps: weights and statistics as well.
  AttentionResults(const AttentionProblem<T>& problem, const TensorView<const T, 4>& grad_context, bool taps,
                   const Execution& execution = {}) {
    forward(problem, taps, execution);
    backward(problem, grad_context, execution);
  }

  AttentionSaved<T> saved() const { return {unrounded_context.cview(), row_max.cview(), row_sum.cview()}; }

 private:
  void forward(const AttentionProblem<T>& problem, bool taps, const Execution& execution) {
    const AttentionShape s = check_attention("test", problem);
    const Shape<3> rows{s.batch, s.heads, s.seq_q};
    context = Tensor<T, 4>({s.batch, s.heads, s.seq_q, s.v_head_dim});
    unrounded_context = Tensor<A, 4>(context.shape());
    logsumexp = Tensor<A, 3>(rows);
    row_max = Tensor<A, 3>(rows);
    row_sum = Tensor<A, 3>(rows);
    AttentionOutputs<T> outputs;
    outputs.context = context.view();
    outputs.unrounded_context = unrounded_context.view();
    outputs.logsumexp = logsumexp.view();
    outputs.row_max = row_max.view();
    outputs.row_sum = row_sum.view();
    if (taps) {
      weights = Tensor<T, 4>({s.batch, s.heads, s.seq_q, s.seq_kv});
      entropy = Tensor<A, 3>(rows);
      received = Tensor<A, 3>({s.batch, s.heads, s.seq_kv});
      top_keys = Tensor<std::int64_t, 4>({s.batch, s.heads, s.seq_q, 3});
      outputs.weights = weights.view();
      outputs.weights_after_dropout = s.seq_q % 2 == 0;
      outputs.statistics.entropy = entropy.view();
      outputs.statistics.received = received.view();
      outputs.statistics.top_keys = top_keys.view();
    }
    attention_forward(problem, outputs, execution);
  }

  void backward(const AttentionProblem<T>& problem, const TensorView<const T, 4>& grad_context,
                const Execution& execution) {
    AttentionGradients<T> gradients;
    grad_queries = Tensor<T, 4>(problem.inputs.queries.shape());
    grad_keys = Tensor<T, 4>(problem.inputs.keys.shape());
    grad_values = Tensor<T, 4>(problem.inputs.values.shape());
    gradients.queries = grad_queries.view();
    gradients.keys = grad_keys.view();
    gradients.values = grad_values.view();
    if (problem.rule.bias) {
      grad_bias = Tensor<T, 4>(problem.rule.bias.shape());
      gradients.bias = grad_bias.view();
    }
    if (problem.rule.alibi_slopes) {
      grad_slopes = Tensor<A, 1>(problem.rule.alibi_slopes.shape());
      gradients.alibi_slopes = grad_slopes.view();
    }
    if (problem.rule.sinks) {
      grad_sinks = Tensor<A, 1>(problem.rule.sinks.shape());
      gradients.sinks = grad_sinks.view();
    }
    attention_backward<T>(problem, grad_context, saved(), gradients, execution);
  }
};

template <class T>
void expect_same_forward(const AttentionResults<T>& expected, const AttentionResults<T>& got,
                         const std::string& where) {
  expect_same_bits(expected.context, got.context, "context", where);
  expect_same_bits(expected.unrounded_context, got.unrounded_context, "unrounded_context", where);
  expect_same_bits(expected.logsumexp, got.logsumexp, "logsumexp", where);
  expect_same_bits(expected.row_max, got.row_max, "row_max", where);
  expect_same_bits(expected.row_sum, got.row_sum, "row_sum", where);
  if (!expected.weights || !got.weights) return;
  expect_same_bits(expected.weights, got.weights, "weights", where);
  expect_same_bits(expected.entropy, got.entropy, "entropy", where);
  expect_same_bits(expected.received, got.received, "received", where);
  expect_same_bits(expected.top_keys, got.top_keys, "top_keys", where);
}

// Weights and statistics are compared where both have them.
template <class T>
void expect_same_results(const AttentionResults<T>& expected, const AttentionResults<T>& got,
                         const std::string& where) {
  expect_same_forward(expected, got, where);
  expect_same_bits(expected.grad_queries, got.grad_queries, "grad_queries", where);
  expect_same_bits(expected.grad_keys, got.grad_keys, "grad_keys", where);
  expect_same_bits(expected.grad_values, got.grad_values, "grad_values", where);
  if (expected.grad_bias) expect_same_bits(expected.grad_bias, got.grad_bias, "grad_bias", where);
  if (expected.grad_slopes) expect_same_bits(expected.grad_slopes, got.grad_slopes, "grad_alibi_slopes", where);
  if (expected.grad_sinks) expect_same_bits(expected.grad_sinks, got.grad_sinks, "grad_sinks", where);
}

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_ATTENTION_RESULTS_H_
