// SPDX-License-Identifier: Apache-2.0
// Every fast path equals the canonical program bit for bit, on random problems with every option, on every instruction
// set this machine has, for any number of threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "headwise/kernels/attention.h"
#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/tensor.h"
#include "tests/random_problem.h"

namespace headwise {
namespace {

using testing::RandomProblem;

template <class T>
bool same_bits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) && std::isnan(b)) return true;
  } else if constexpr (!std::is_integral_v<T>) {
    if (std::isnan(to_float(a)) && std::isnan(to_float(b))) return true;
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T, int Rank>
void expect_same(const Tensor<T, Rank>& expected, const Tensor<T, Rank>& got, const char* what,
                 const std::string& where) {
  for (Index n = 0; n < expected.elements(); ++n) {
    if (same_bits(expected.data()[n], got.data()[n])) continue;
    ADD_FAILURE() << where << ": " << what << " differs first at flat index " << n << " of "
                  << expected.elements() << ": expected " << widen<double>(expected.data()[n]) << ", got "
                  << widen<double>(got.data()[n]);
    return;
  }
}

template <class T>
struct Results {
  using A = Accumulated<T>;
  Tensor<T, 4> context, weights, grad_queries, grad_keys, grad_values, grad_bias;
  Tensor<A, 3> logsumexp, row_max, row_sum, entropy, received;
  Tensor<std::int64_t, 4> top_keys;
  Tensor<A, 1> grad_slopes, grad_sinks;

  Results(const RandomProblem<T>& p, bool taps, const Execution& execution) {
    const AttentionShape& s = p.shape;
    const Shape<3> rows{s.batch, s.heads, s.seq_q};
    context = Tensor<T, 4>({s.batch, s.heads, s.seq_q, s.v_head_dim});
    logsumexp = Tensor<A, 3>(rows);
    row_max = Tensor<A, 3>(rows);
    row_sum = Tensor<A, 3>(rows);
    AttentionOutputs<T> outputs;
    outputs.context = context.view();
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
    attention_forward(p.problem, outputs, execution);
    backward(p, execution);
  }

  void backward(const RandomProblem<T>& p, const Execution& execution) {
    AttentionGradients<T> gradients;
    grad_queries = Tensor<T, 4>(p.queries.view.shape());
    grad_keys = Tensor<T, 4>(p.keys.view.shape());
    grad_values = Tensor<T, 4>(p.values.view.shape());
    gradients.queries = grad_queries.view();
    gradients.keys = grad_keys.view();
    gradients.values = grad_values.view();
    if (p.problem.rule.bias) {
      grad_bias = Tensor<T, 4>(p.bias.view.shape());
      gradients.bias = grad_bias.view();
    }
    if (p.problem.rule.alibi_slopes) {
      grad_slopes = Tensor<A, 1>(Shape<1>{p.shape.heads});
      gradients.alibi_slopes = grad_slopes.view();
    }
    if (p.problem.rule.sinks) {
      grad_sinks = Tensor<A, 1>(Shape<1>{p.shape.heads});
      gradients.sinks = grad_sinks.view();
    }
    attention_backward<T>(p.problem, p.grad_context.view, {context.cview(), row_max.cview(), row_sum.cview()}, gradients,
                          execution);
  }
};

template <class T>
void expect_same_results(const Results<T>& expected, const Results<T>& got, const std::string& where) {
  expect_same(expected.context, got.context, "context", where);
  expect_same(expected.logsumexp, got.logsumexp, "logsumexp", where);
  expect_same(expected.row_max, got.row_max, "row_max", where);
  expect_same(expected.row_sum, got.row_sum, "row_sum", where);
  if (expected.weights && got.weights) {
    expect_same(expected.weights, got.weights, "weights", where);
    expect_same(expected.entropy, got.entropy, "entropy", where);
    expect_same(expected.received, got.received, "received", where);
    expect_same(expected.top_keys, got.top_keys, "top_keys", where);
  }
  expect_same(expected.grad_queries, got.grad_queries, "grad_queries", where);
  expect_same(expected.grad_keys, got.grad_keys, "grad_keys", where);
  expect_same(expected.grad_values, got.grad_values, "grad_values", where);
  if (expected.grad_bias) expect_same(expected.grad_bias, got.grad_bias, "grad_bias", where);
  if (expected.grad_slopes) expect_same(expected.grad_slopes, got.grad_slopes, "grad_alibi_slopes", where);
  if (expected.grad_sinks) expect_same(expected.grad_sinks, got.grad_sinks, "grad_sinks", where);
}

// HEADWISE_TEST_CASES is the share of the random problems to run, in percent; HEADWISE_TEST_SEED replays one.
Index cases(Index usual) {
  const char* text = std::getenv("HEADWISE_TEST_CASES");
  return text == nullptr ? usual : std::max<Index>(1, usual * std::atoll(text) / 100);
}

template <class T>
void run_cases(std::uint64_t first_seed, Index count, const testing::ProblemLimits& limits) {
  const char* only = std::getenv("HEADWISE_TEST_SEED");
  SerialExecutor serial;
  for (Index n = 0; n < (only != nullptr ? 1 : count); ++n) {
    const std::uint64_t seed = only != nullptr ? std::strtoull(only, nullptr, 10) : first_seed + n;
    const RandomProblem<T> p(seed, limits);
    Execution alone;
    alone.executor = &serial;
    force_isa(Isa::kCanonical);
    const Results<T> expected(p, true, alone);
    for (Isa isa : available_isas()) {
      if (isa == Isa::kCanonical) continue;
      force_isa(isa);
      const std::string where = p.description + " on " + std::string(isa_name(isa));
      expect_same_results(expected, Results<T>(p, n % 2 == 0, n % 3 == 0 ? Execution{} : alone), where);
    }
    if (::testing::Test::HasFailure()) break;
  }
  force_isa(std::nullopt);
}

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInFloat) { run_cases<float>(1, cases(1200), {}); }

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInDouble) { run_cases<double>(10001, cases(400), {}); }

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInBfloat16) { run_cases<bfloat16>(20001, cases(200), {}); }

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInFloat16) { run_cases<float16>(30001, cases(200), {}); }

TEST(Bits, ThreadCountNeverMatters) {
  for (Index n = 0; n < cases(60); ++n) {
    testing::ProblemLimits limits;
    limits.most_rows = 520;
    const RandomProblem<float> p(40001 + n, limits);
    set_num_threads(1);
    const Results<float> expected(p, false, {});
    for (int count : {2, 3, 8}) {
      set_num_threads(count);
      expect_same_results(expected, Results<float>(p, false, {}), p.description + " on " + std::to_string(count) + " threads");
    }
    if (::testing::Test::HasFailure()) break;
  }
  set_num_threads(2);
}

}  // namespace
}  // namespace headwise
