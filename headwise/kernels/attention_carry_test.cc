// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/attention_carry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "headwise/runtime/isa.h"
#include "headwise/tensor/tensor.h"
#include "tests/random_problem.h"
#include "tests/support/case_count.h"

namespace headwise {
namespace {

// One causal problem over several hundred keys, whole and in parts that begin at 0, 256 and 512.
template <class T>
void expect_parts_equal_the_whole() {
  using A = Accumulated<T>;
  constexpr Index kWidth = 24;
  // 700 keys; fewer where fewer cases are asked for, still in three parts.
  const Index seq = std::max<Index>(testing::case_count(700), 530);
  testing::Dice dice(11);
  Tensor<T, 4> q({2, 4, seq, kWidth}), k({2, 2, seq, kWidth}), v({2, 2, seq, kWidth});
  for (auto* tensor : {&q, &k, &v})
    testing::fill(tensor->view(), [&] { return narrow<T>(static_cast<A>(dice.normal())); });
  const A sinks[] = {0, 1, -1, 2}, slopes[] = {A{0.1}, A{0.01}, 0, A{0.3}};
  AttentionProblem<T> problem;
  problem.inputs = {q.cview(), k.cview(), v.cview()};
  problem.rule.sinks = {sinks, {4}};
  problem.rule.alibi_slopes = {slopes, {4}};
  problem.visibility.causal = true;
  problem.dropout = {0.2, 5, 1, 0, 0, 0};
  Tensor<T, 4> expected(q.shape()), got(q.shape());
  Tensor<A, 3> expected_lse({2, 4, seq}), got_lse(expected_lse.shape()), row_max(got_lse.shape()),
      row_sum(got_lse.shape());
  AttentionOutputs<T> outputs;
  outputs.context = expected.view();
  outputs.logsumexp = expected_lse.view();
  attention_forward(problem, outputs);

  Tensor<A, 4> carried(q.shape());
  const AttentionCarry<A> carry{carried.view(), row_max.view(), row_sum.view()};
  for (const auto& [first, last] : {std::pair<Index, Index>{0, 256}, {256, 512}, {512, seq}}) {
    AttentionProblem<T> part = problem;
    part.inputs.keys = k.cview().slice(2, first, last);
    part.inputs.values = v.cview().slice(2, first, last);
    const Index offset[] = {-first};
    part.visibility.alignment = Alignment::kOffset;
    part.visibility.query_offset = offset;
    part.dropout.position_offset = first;
    attention_accumulate(part, carry);
  }
  outputs.context = got.view();
  outputs.logsumexp = got_lse.view();
  attention_finish(carry, problem.dropout, outputs);
  EXPECT_EQ(0, std::memcmp(expected.data(), got.data(), sizeof(T) * static_cast<std::size_t>(got.elements())));
  EXPECT_EQ(0,
            std::memcmp(expected_lse.data(), got_lse.data(), sizeof(A) * static_cast<std::size_t>(got_lse.elements())));
}

TEST(AttentionCarry, KeysInPartsHaveTheBitsOfOneCallOnEveryInstructionSet) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    expect_parts_equal_the_whole<float>();
    expect_parts_equal_the_whole<double>();
    expect_parts_equal_the_whole<bfloat16>();
  }
  force_isa(std::nullopt);
}

TEST(AttentionCarry, APartThatBeginsInsideABlockIsRefused) {
  Tensor<float, 4> q({1, 1, 3, 4});
  AttentionProblem<float> problem;
  problem.inputs = {q.cview(), q.cview(), q.cview()};
  problem.dropout.position_offset = 100;
  try {
    check_attention("attention", problem);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "attention: dropout position_offset must be a multiple of 256, got 100");
  }
}

}  // namespace
}  // namespace headwise
