// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/run_tasks.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/runtime/floating_point_mode.h"
#include "headwise/runtime/threads.h"
#include "tests/support/gathering.h"

namespace headwise {
namespace {

// Half of the smallest normal number, computed where the compiler cannot: 0 when denormals are flushed.
float half_of_smallest_normal() {
  volatile float smallest = std::numeric_limits<float>::min();
  return smallest * 0.5F;
}

// 1 + half an epsilon and a bit: rounds to nearest down to 1, upward to 1 + epsilon.
float rounded_sum() {
  volatile float tiny = std::numeric_limits<float>::epsilon() * 0.25F;
  return 1.0F + tiny;
}

#if defined(__x86_64__)
void flush_denormals_on_this_thread() { _mm_setcsr(_mm_getcsr() | 0x8040U); }
#endif

TEST(RunTasks, UsesTheExecutorOfTheCaller) {
  struct Counting final : Executor {
    int runs = 0;
    int workers() const override { return 1; }
    void run(Index tasks, TaskRef task) override {
      ++runs;
      for (Index i = tasks - 1; i >= 0; --i) task(i, 0);
    }
  } executor;
  Execution execution;
  execution.executor = &executor;
  std::vector<Index> order;
  run_tasks(execution, 3, [&](Index index, int) { order.push_back(index); });
  EXPECT_EQ(executor.runs, 1);
  EXPECT_EQ(order, (std::vector<Index>{2, 1, 0}));
}

TEST(RunTasks, UsesTheProcessWidePoolOtherwise) {
  set_num_threads(2);
  std::atomic<int> inside{0};
  run_tasks({}, 2, [&](Index, int) {
    inside.fetch_add(1);
    while (inside < 2) std::this_thread::yield();  // ends only when two workers take part
  });
  EXPECT_EQ(inside, 2);
}

TEST(RunTasks, BeginsNothingWhenTheFlagIsUpAlready) {
  const std::atomic<bool> cancel{true};
  Execution execution;
  execution.cancel = &cancel;
  for (Index tasks : {0, 1, 10}) {
    EXPECT_THROW(run_tasks(execution, tasks, [](Index, int) { ADD_FAILURE() << "a task began"; }), Cancelled);
  }
}

TEST(RunTasks, StopsBetweenTasksOnceTheFlagIsUp) {
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    std::atomic<bool> cancel{false};
    std::atomic<Index> begun{0};
    Execution execution;
    execution.cancel = &cancel;
    try {
      run_tasks(execution, 1'000'000, [&](Index, int) {
        if (begun.fetch_add(1) == 10) cancel = true;
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Cancelled& error) {
      EXPECT_STREQ(error.what(), "the call was cancelled");
    }
    EXPECT_LT(begun, 1000) << threads << " threads";
  }
}

TEST(RunTasks, IsCancelledFromAnotherThread) {
  set_num_threads(2);
  std::atomic<bool> cancel{false};
  std::atomic<bool> begun{false};
  Execution execution;
  execution.cancel = &cancel;
  std::thread canceller([&] {
    while (!begun) std::this_thread::yield();
    cancel = true;
  });
  EXPECT_THROW(run_tasks(execution, std::numeric_limits<Index>::max() / 2, [&](Index, int) { begun = true; }),
               Cancelled);
  canceller.join();
}

TEST(RunTasks, ReportsProgressFromTheCallingThreadUpToTheTotal) {
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    std::vector<std::pair<Index, Index>> reports;
    Execution execution;
    execution.progress = [&, caller = std::this_thread::get_id()](Index done, Index total) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      reports.emplace_back(done, total);
    };
    run_tasks(execution, 100, [](Index, int) { std::this_thread::yield(); });
    ASSERT_FALSE(reports.empty());
    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(reports[i].second, 100);
      EXPECT_GT(reports[i].first, i > 0 ? reports[i - 1].first : 0);
    }
    EXPECT_EQ(reports.back().first, 100);
  }
}

TEST(RunTasks, ReportsOnlyTheEndWhenTheCallerRunsNoTask) {
  struct Elsewhere final : Executor {
    int workers() const override { return 1; }
    void run(Index tasks, TaskRef task) override {
      std::thread([&] {
        for (Index i = 0; i < tasks; ++i) task(i, 0);
      }).join();
    }
  } executor;
  std::vector<Index> reports;
  Execution execution;
  execution.executor = &executor;
  execution.progress = [&](Index done, Index) { reports.push_back(done); };
  run_tasks(execution, 5, [](Index, int) {});
  EXPECT_EQ(reports, std::vector<Index>{5});
}

TEST(RunTasks, PassesOnWhatProgressThrows) {
  set_num_threads(2);
  Execution execution;
  execution.progress = [](Index, Index) { throw std::domain_error("enough"); };
  EXPECT_THROW(run_tasks(execution, 1000, [](Index, int) {}), std::domain_error);
}

TEST(RunTasks, RoundsToNearestWhateverTheCallersMode) {
  set_num_threads(2);
  Gathering gathering(2);  // the caller and a worker
  std::vector<float> sums(2);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  ASSERT_GT(rounded_sum(), 1.0F);  // the mode is real
  run_tasks({}, 2, [&](Index i, int) {
    gathering.arrive();
    sums[i] = rounded_sum();
  });
  const float after = rounded_sum();
  std::fesetround(FE_TONEAREST);
  for (float sum : sums) EXPECT_EQ(sum, 1.0F);
  EXPECT_GT(after, 1.0F);  // and it is put back
}

#if defined(__x86_64__)
TEST(RunTasks, KeepsDenormalsWhateverTheCallersMode) {
  set_num_threads(2);
  Gathering gathering(2);
  std::vector<float> halves(2);
  const unsigned before = _mm_getcsr();
  flush_denormals_on_this_thread();
  const unsigned flushing = _mm_getcsr();
  ASSERT_EQ(half_of_smallest_normal(), 0.0F);
  run_tasks({}, 2, [&](Index i, int) {
    gathering.arrive();
    halves[i] = half_of_smallest_normal();
  });
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  for (float half : halves) EXPECT_EQ(half, 0x1p-127F);
  EXPECT_EQ(after & 0xFFC0U, flushing & 0xFFC0U);
}
#endif

TEST(RunTasks, PutsTheModeBackAfterAnException) {
  set_num_threads(1);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  EXPECT_THROW(run_tasks({}, 2, [](Index, int) { throw std::runtime_error("task"); }), std::runtime_error);
  const float after = rounded_sum();
  std::fesetround(FE_TONEAREST);
  EXPECT_GT(after, 1.0F);
}

}  // namespace
}  // namespace headwise
