// SPDX-License-Identifier: Apache-2.0
// Neither the number of threads nor the order in which an executor runs the tasks changes a bit. The problems have few
// heads: their tiles and key blocks are what threads share, and grad_queries is added to by ticket.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "headwise/kernels/attention.h"
#include "headwise/runtime/threads.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/case_count.h"
#include "tests/support/problem_parts.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::batch_entry;
using testing::case_count;
using testing::expect_same_results;
using testing::ProblemPart;
using testing::RandomProblem;
using testing::some_heads;

// Claims several workers and runs all tasks on the caller, the last one first.
class ReverseExecutor final : public Executor {
 public:
  int workers() const override { return 5; }
  void run(Index tasks, TaskRef task) override {
    for (Index index = tasks; index-- > 0;) task(index, static_cast<int>(index % 5));
  }
};

class ForwardExecutor final : public Executor {
 public:
  int workers() const override { return 7; }
  void run(Index tasks, TaskRef task) override {
    for (Index index = 0; index < tasks; ++index) task(index, 0);
  }
};

// A thread for each of `workers` runs of tasks, the last run started first.
class ThreadPerRunExecutor final : public Executor {
 public:
  int workers() const override { return kWorkers; }
  void run(Index tasks, TaskRef task) override {
    std::vector<std::jthread> running;
    for (int worker = kWorkers - 1; worker >= 0; --worker) {
      running.emplace_back([=] {
        for (Index index = worker; index < tasks; index += kWorkers) task(index, worker);
      });
    }
  }

 private:
  static constexpr int kWorkers = 3;
};

// One kv head of one batch entry of random problem `seed`, or the entry with all its heads.
template <class T>
struct FewHeads {
  RandomProblem<T> random;
  ProblemPart<T> part;

  FewHeads(std::uint64_t seed, const testing::ProblemLimits& limits, bool one_group)
      : random(seed, limits), part(random.problem, random.grad_context.view) {
    part = batch_entry(part, 0);
    if (one_group) part = some_heads(part, 0, random.shape.heads / random.shape.kv_heads, 0, 1);
  }
};

template <class T, class Compare>
void on_few_heads(std::uint64_t first_seed, Index count, const Compare& compare) {
  testing::ProblemLimits limits;
  limits.most_rows = 600;
  Index compared = 0;
  for (std::uint64_t seed = first_seed; compared < count && !::testing::Test::HasFailure(); ++seed) {
    const FewHeads<T> few(seed, limits, seed % 3 != 0);
    if (few.random.shape.seq_kv <= 256) continue;  // one key block: nothing to share out
    compare(few);
    ++compared;
  }
}

template <class T>
void compare_thread_counts(const FewHeads<T>& few) {
  set_num_threads(1);
  const AttentionResults<T> expected(few.part.problem, few.part.grad_context, false);
  for (int count : {2, 3, 8}) {
    set_num_threads(count);
    for (bool taps : {false, true}) {
      const AttentionResults<T> got(few.part.problem, few.part.grad_context, taps);
      expect_same_results(expected, got, few.random.description + " on " + std::to_string(count) + " threads");
    }
  }
  set_num_threads(2);
}

TEST(Scheduling, OneHeadOnAnyNumberOfThreadsHasTheSameBits) {
  on_few_heads<float>(300001, case_count(40), compare_thread_counts<float>);
  on_few_heads<double>(301001, case_count(12), compare_thread_counts<double>);
  on_few_heads<bfloat16>(302001, case_count(12), compare_thread_counts<bfloat16>);
}

template <class T>
void compare_executors(const FewHeads<T>& few) {
  SerialExecutor serial;
  ReverseExecutor reverse;
  ForwardExecutor forward;
  ThreadPerRunExecutor threaded;
  const auto results = [&](Executor& executor, bool taps) {
    Execution execution;
    execution.executor = &executor;
    return AttentionResults<T>(few.part.problem, few.part.grad_context, taps, execution);
  };
  const AttentionResults<T> expected = results(serial, true);
  expect_same_results(expected, results(reverse, false), few.random.description + ", tasks in reverse");
  expect_same_results(expected, results(reverse, true), few.random.description + ", tasks in reverse, with taps");
  expect_same_results(expected, results(forward, false), few.random.description + ", one task after the other");
  expect_same_results(expected, results(threaded, false), few.random.description + ", a thread for each run");
}

TEST(Scheduling, AnExecutorMayRunTasksInAnyOrder) {
  on_few_heads<float>(310001, case_count(40), compare_executors<float>);
  on_few_heads<float16>(311001, case_count(15), compare_executors<float16>);
}

// 12 key blocks and 24 query blocks of one head: many tickets in flight, again and again.
TEST(Scheduling, ALongHeadHasTheSameBitsRunAfterRun) {
  constexpr Index kSeq = 3000, kWidth = 16;
  testing::Dice dice(5);
  Tensor<float, 4> queries({1, 1, kSeq, kWidth}), keys(queries.shape()), values(queries.shape()), grad(queries.shape());
  for (auto* tensor : {&queries, &keys, &values, &grad}) {
    testing::fill(tensor->view(), [&] { return static_cast<float>(dice.normal()); });
  }
  AttentionProblem<float> problem;
  problem.inputs = {queries.cview(), keys.cview(), values.cview()};
  problem.visibility.causal = true;
  problem.dropout = {0.1, 7, 0, 0, 0};
  set_num_threads(1);
  const AttentionResults<float> expected(problem, grad.cview(), false);
  for (int run = 0; run < 12; ++run) {
    set_num_threads(2 + run % 7);
    expect_same_results(expected, AttentionResults<float>(problem, grad.cview(), false), "run " + std::to_string(run));
  }
  set_num_threads(2);
}

}  // namespace
}  // namespace headwise
