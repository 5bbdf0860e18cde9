// SPDX-License-Identifier: Apache-2.0
// Working memory: none is allocated once a call was made before, it grows with the sequence and not with its square,
// and an allocation that fails is std::bad_alloc and nothing else.
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <thread>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/linear.h"
#include "headwise/layers/kv_cache.h"
#include "headwise/runtime/scratch.h"
#include "headwise/runtime/threads.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/counted_heap.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::Dice;
using testing::RefusedAllocations;

// Self-attention with everything that a call reads and writes, made beforehand.
struct Prepared {
  Tensor<float, 4> queries, keys, values, grad_context, context, grad_queries, grad_keys, grad_values;
  Tensor<float, 3> row_max, row_sum, entropy, received;
  AttentionProblem<float> problem;

  Prepared(Index heads, Index seq, Index width, double dropout)
      : queries({1, heads, seq, width}),
        keys({1, 1, seq, width}),
        values(keys.shape()),
        grad_context(queries.shape()),
        context(queries.shape()),
        grad_queries(queries.shape()),
        grad_keys(keys.shape()),
        grad_values(keys.shape()),
        row_max({1, heads, seq}),
        row_sum({1, heads, seq}),
        entropy({1, heads, seq}),
        received({1, heads, seq}) {
    Dice dice(3);
    for (auto* tensor : {&queries, &keys, &values, &grad_context}) {
      testing::fill(tensor->view(), [&] { return static_cast<float>(dice.normal()); });
    }
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    problem.visibility.causal = true;
    problem.dropout.probability = dropout;
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  void run(const Execution& execution = {}, bool with_statistics = false) {
    AttentionOutputs<float> outputs;
    outputs.context = context.view();
    outputs.row_max = row_max.view();
    outputs.row_sum = row_sum.view();
    if (with_statistics) outputs.statistics.entropy = entropy.view();
    if (with_statistics) outputs.statistics.received = received.view();
    attention_forward(problem, outputs, execution);
    attention_backward<float>(problem, grad_context.cview(), {context.cview(), row_max.cview(), row_sum.cview()},
                              {grad_queries.view(), grad_keys.view(), grad_values.view(), {}, {}, {}}, execution);
  }
};

// Runs `call` a few times, then expects that more runs take no new block of scratch on any thread.
void expect_steady(const std::function<void()>& call, const char* what) {
  for (int run = 0; run < 20; ++run) call();
  const std::uint64_t before = scratch_allocations();
  for (int run = 0; run < 10; ++run) call();
  EXPECT_EQ(scratch_allocations(), before) << what;
}

TEST(Allocation, ACallLikeTheLastOneTakesNoNewScratch) {
  SerialExecutor serial;
  Execution alone;
  alone.executor = &serial;
  for (double dropout : {0.0, 0.2}) {
    Prepared one(1, 700, 32, dropout), many(12, 150, 32, dropout);
    expect_steady([&] { one.run(alone); }, "one head");
    expect_steady([&] { many.run(alone); }, "many heads");
    expect_steady([&] { many.run(alone, true); }, "many heads with statistics");
  }
  Prepared small(2, 60, 16, 0);
  KvCache<float> cache({1, 1, 4000, 16, 16});
  for (int n = 0; n < 50; ++n) cache.append(small.keys.cview(), small.values.cview());
  AttentionProblem<float> decode;
  decode.inputs.queries = small.queries.cview().slice(2, 0, 1);
  AttentionOutputs<float> outputs;
  outputs.context = small.context.view().slice(2, 0, 1);
  expect_steady([&] { cache.attend(decode, outputs, alone); }, "decoding");
  Dice dice(4);
  Tensor<float, 2> x({300, 200}), weight({130, 200}), out({300, 130});
  expect_steady([&] { linear_forward<float>(x.cview(), weight.cview(), {}, out.view(), alone); }, "projection");
}

// On a pool the threads may take turns at the larger tasks: each grows once, then none does.
TEST(Allocation, AThreadedCallEndsUpTakingNoNewScratch) {
  set_num_threads(2);
  Prepared one(1, 700, 32, 0.1);
  std::uint64_t before = 0;
  int quiet = 0;
  for (int run = 0; run < 2000 && quiet < 20; ++run) {
    before = scratch_allocations();
    one.run();
    quiet = scratch_allocations() == before ? quiet + 1 : 0;
  }
  EXPECT_EQ(quiet, 20);
}

constexpr Index kManyHeads = 8;

// Bytes that forward and backward of one sequence hold at most, beside what the caller gave them.
std::int64_t working_bytes(Index seq, double dropout, bool with_statistics) {
  Prepared prepared(kManyHeads, seq, 64, dropout);
  std::int64_t most = 0;
  std::thread([&] {  // its scratch starts empty
    SerialExecutor serial;
    Execution alone;
    alone.executor = &serial;
    const std::int64_t before = testing::live_bytes();
    for (int run = 0; run < 2; ++run) {  // the first grows by doubling, the second has found its size
      testing::restart_peak();
      prepared.run(alone, with_statistics);
      most = testing::peak_bytes() - before;
    }
  })
      .join();
  return most;
}

void expect_linear_memory(double dropout, bool with_statistics) {
  std::int64_t last = working_bytes(512, dropout, with_statistics);
  for (Index seq : {1024, 2048}) {
    const std::int64_t now = working_bytes(seq, dropout, with_statistics);
    EXPECT_LE(static_cast<double>(now), 2.2 * static_cast<double>(last)) << "seq " << seq;
    last = now;
  }
  EXPECT_LT(last, kManyHeads * 2048 * 2048 * 4 / 4) << "a quarter of the weights";
}

TEST(Allocation, MemoryGrowsWithTheSequenceAndNotWithItsSquare) { expect_linear_memory(0, false); }

TEST(Allocation, MemoryGrowsWithTheSequenceUnderDropout) { expect_linear_memory(0.1, false); }

TEST(Allocation, MemoryGrowsWithTheSequenceWithStatistics) { expect_linear_memory(0, true); }

// Refuses allocation after allocation of `call` until it gets through; every failure is std::bad_alloc, and leaves no
// block behind. Each attempt is a thread of its own, whose scratch starts empty. Gives how many failed.
int refuse_each(std::int64_t refused_at_once, const std::function<void()>& call, const char* what) {
  for (int number = 0;; ++number) {
    const std::int64_t before = testing::live_blocks();
    enum { kDone, kRefused, kOther } outcome = kOther;
    std::int64_t seen = 0;
    std::thread([&] {
      try {
        const RefusedAllocations refusal(number, refused_at_once);
        try {
          call();
          outcome = kDone;
        } catch (const std::bad_alloc&) {
          outcome = kRefused;
        }
        seen = RefusedAllocations::seen();
      } catch (...) {
        outcome = kOther;
      }
    }).join();
    EXPECT_NE(outcome, kOther) << what << ", allocation " << number;
    EXPECT_EQ(testing::live_blocks(), before)
        << what << ", allocation " << number << " refused: blocks were left behind";
    if (outcome == kOther || ::testing::Test::HasFailure()) return number;
    if (outcome == kDone && seen <= number) return number;
  }
}

TEST(Allocation, OneThatFailsIsBadAllocAndLeavesNothingBehind) {
  SerialExecutor serial;
  Execution alone;
  alone.executor = &serial;
  Prepared small(4, 300, 16, 0.2);
  for (std::int64_t refused : {std::int64_t{1}, std::int64_t{1'000'000}}) {
    EXPECT_GT(refuse_each(
                  refused, [&] { small.run(alone, true); }, "attention"),
              3);
    EXPECT_GT(refuse_each(
                  refused,
                  [&] {
                    KvCache<bfloat16>({2, 2, 600, 16, 16});
                  },
                  "a cache"),
              3);
    Tensor<float, 2> x({300, 600}), weight({130, 600}), out({300, 130});
    EXPECT_GT(
        refuse_each(
            refused, [&] { linear_forward<float>(x.cview(), weight.cview(), {}, out.view(), alone); }, "projection"),
        1);
  }
}

// With a pool, the failure may be on any of its threads. The pool keeps its own memory, so only the outcome is checked.
TEST(Allocation, OneThatFailsOnAPoolLeavesThePoolUsable) {
  Prepared small(1, 700, 16, 0);
  small.run();
  const Tensor<float, 4> expected = small.context, expected_grad = small.grad_queries;
  int refused = 0;
  for (int number = 0; number < 40; ++number) {
    set_num_threads(1);
    small.run();
    set_num_threads(3);  // new threads, with empty scratch
    std::thread([&] {
      const RefusedAllocations refusal(number, 1);
      try {
        small.run();
      } catch (const std::bad_alloc&) {
        ++refused;
      }
    }).join();
    small.run();
    testing::expect_same_bits(expected, small.context, "context", "after allocation " + std::to_string(number));
    testing::expect_same_bits(expected_grad, small.grad_queries, "grad_queries", std::to_string(number));
  }
  EXPECT_GT(refused, 3);
  set_num_threads(2);
}

}  // namespace
}  // namespace headwise
