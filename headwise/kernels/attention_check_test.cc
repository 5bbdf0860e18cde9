// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "headwise/kernels/attention.h"
#include "headwise/runtime/isa.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/tensor.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"

namespace headwise {
namespace {

std::string message_for_offsets(std::span<const Index> offsets) {
  const Tensor<float, 4> tensor({2, 1, 3, 4});
  AttentionProblem<float> problem;
  problem.inputs = {tensor.cview(), tensor.cview(), tensor.cview()};
  problem.visibility.causal = true;
  problem.visibility.alignment = Alignment::kOffset;
  problem.visibility.query_offset = offsets;
  try {
    check_attention("attention", problem);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(AttentionCheck, PositionsThatWouldOverflowAreRefused) {
  constexpr Index kMost = Index{1} << 62;
  const Index inside[] = {kMost, -kMost};
  EXPECT_EQ(message_for_offsets(inside), "nothing was thrown");
  const Index above[] = {0, kMost + 1};
  EXPECT_EQ(message_for_offsets(above),
            "attention: query_offset must be in -2^62..2^62, got 4611686018427387905 at batch entry 1");
  const Index below[] = {std::numeric_limits<Index>::min()};
  EXPECT_EQ(message_for_offsets(below),
            "attention: query_offset must be in -2^62..2^62, got -9223372036854775808 at batch entry 0");
}

TEST(AttentionCheck, TheFurthestPositionsAndWidestWindowsAreComputedWithoutOverflow) {
  constexpr Index kLargest = std::numeric_limits<Index>::max();
  testing::ProblemLimits limits;
  limits.most_rows = 40;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    testing::RandomProblem<float> random(seed, limits);
    AttentionProblem<float> problem = random.problem;
    const Index far[] = {seed % 2 == 0 ? Index{1} << 62 : -(Index{1} << 62)};
    problem.visibility.alignment = Alignment::kOffset;
    problem.visibility.query_offset = far;
    if (seed % 3 != 0) problem.visibility.window_left = kLargest;
    if (seed % 3 != 1) problem.visibility.window_right = kLargest;
    force_isa(Isa::kCanonical);
    const testing::AttentionResults<float> expected(problem, random.grad_context.view, true);
    for (Isa isa : available_isas()) {
      force_isa(isa);
      const testing::AttentionResults<float> got(problem, random.grad_context.view, true);
      testing::expect_same_results(expected, got, random.description);
    }
  }
  force_isa(std::nullopt);
}

}  // namespace
}  // namespace headwise
