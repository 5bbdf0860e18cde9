// SPDX-License-Identifier: Apache-2.0
// Query heads that share a kv head give the bits of kv heads repeated in memory. The gradients of a shared head are the
// documented sum: query blocks left to right, the heads of the group one after the other.
#include <gtest/gtest.h>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/blocks.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/case_count.h"
#include "tests/support/problem_parts.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::case_count;
using testing::expect_same_bits;
using testing::ProblemPart;
using testing::RandomProblem;

template <class T>
Tensor<T, 4> repeated(const TensorView<const T, 4>& shared, Index times) {
  Tensor<T, 4> copy({shared.size(0), shared.size(1) * times, shared.size(2), shared.size(3)});
  for (Index h = 0; h < copy.size(1); ++h) copy_elements(shared.select(1, h / times), copy.view().select(1, h));
  return copy;
}

// sum (batch, kv_heads, ..) += part (batch, heads, ..), head by head of each group's head `n`.
template <class T>
void add_heads(const Tensor<T, 4>& part, Index group, Index n, Tensor<T, 4>& sum) {
  for (Index b = 0; b < sum.size(0); ++b) {
    for (Index g = 0; g < sum.size(1); ++g) {
      for (Index j = 0; j < sum.size(2); ++j) {
        for (Index d = 0; d < sum.size(3); ++d) sum(b, g, j, d) += part(b, g * group + n, j, d);
      }
    }
  }
}

template <class T>
void compare_with_repeated_heads(const RandomProblem<T>& p) {
  const Index group = p.shape.heads / p.shape.kv_heads;
  const Tensor<T, 4> keys = repeated<T>(p.keys.view, group), values = repeated<T>(p.values.view, group);
  ProblemPart<T> whole(p.problem, p.grad_context.view);
  const AttentionResults<T> shared(whole.problem, whole.grad_context, true);
  whole.problem.inputs.keys = keys.cview();
  whole.problem.inputs.values = values.cview();
  const AttentionResults<T> many(whole.problem, whole.grad_context, true);
  testing::expect_same_forward(many, shared, p.description);
  expect_same_bits(many.grad_queries, shared.grad_queries, "grad_queries", p.description);

  // One offset for the whole batch keeps the query blocks of all entries alike.
  const Index offset = (*whole.offsets)[0];
  for (Index other : *whole.offsets) {
    if (other != offset) return;
  }
  std::vector<AttentionResults<T>> blocks;
  for (Index begin = 0; begin < p.shape.seq_q;) {
    const Index end = std::min(p.shape.seq_q, (floor_div(begin + offset, kQueryBlock) + 1) * kQueryBlock - offset);
    const ProblemPart<T> rows = some_rows(whole, begin, end);
    blocks.emplace_back(rows.problem, rows.grad_context, false);
    begin = end;
  }
  Tensor<T, 4> grad_keys(p.keys.view.shape()), grad_values(p.values.view.shape());
  for (Index n = 0; n < group; ++n) {
    for (const AttentionResults<T>& block : blocks) {
      add_heads(block.grad_keys, group, n, grad_keys);
      add_heads(block.grad_values, group, n, grad_values);
    }
  }
  expect_same_bits(grad_keys, shared.grad_keys, "grad_keys", p.description);
  expect_same_bits(grad_values, shared.grad_values, "grad_values", p.description);
}

template <class T>
void run_cases(std::uint64_t first_seed, Index count) {
  testing::ProblemLimits limits;
  limits.most_rows = 300;
  Index grouped = 0;
  for (std::uint64_t seed = first_seed; grouped < count && !::testing::Test::HasFailure(); ++seed) {
    const RandomProblem<T> p(seed, limits);
    if (p.shape.heads == p.shape.kv_heads) continue;
    compare_with_repeated_heads(p);
    ++grouped;
  }
}

TEST(GroupedQueries, SharedHeadsGiveTheBitsOfRepeatedHeadsInFloat) { run_cases<float>(200001, case_count(60)); }

TEST(GroupedQueries, SharedHeadsGiveTheBitsOfRepeatedHeadsInDouble) { run_cases<double>(201001, case_count(20)); }

}  // namespace
}  // namespace headwise
