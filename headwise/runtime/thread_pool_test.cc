// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/gathering.h"
#include "tests/support/tally.h"

namespace headwise {
namespace {

using namespace std::chrono_literals;

class ThreadPoolOf : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolOf, RunsEveryTaskOnceWhateverTheirNumber) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.workers(), GetParam());
  for (Index tasks : {0, 1, 2, 3, 7, 8, 9, 64, 1000}) {
    Tally tally(tasks, GetParam());
    pool.run(tasks, tally);
    EXPECT_TRUE(tally.each_ran_once()) << tasks << " tasks";
  }
}

TEST_P(ThreadPoolOf, RunsThousandsOfTimesInARow) {
  ThreadPool pool(GetParam());
  std::vector<Index> squares(16);  // plain memory: a missing happens-before is a data race here
  Index sum = 0;
  for (Index round = 0; round < 3000; ++round) {
    auto square = [&](Index i, int) { squares[i] = i * i + round; };
    pool.run(16, square);
    for (Index value : squares) sum += value;
  }
  EXPECT_EQ(sum, 3000 * 1240 + 16 * (3000 * 2999 / 2));
}

TEST_P(ThreadPoolOf, UsesAllItsWorkersAtOnce) {
  ThreadPool pool(GetParam());
  Gathering gathering(GetParam());
  std::vector<std::atomic<int>> used(GetParam());
  auto gather = [&](Index, int worker) {
    used[worker].fetch_add(1);
    gathering.arrive();
  };
  pool.run(GetParam(), gather);
  EXPECT_TRUE(gathering.complete());
  for (const auto& count : used) EXPECT_EQ(count, 1);
}

TEST_P(ThreadPoolOf, WakesWorkersThatWentToSleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    Gathering gathering(GetParam());
    auto gather = [&](Index, int) { gathering.arrive(); };
    pool.run(GetParam(), gather);
    EXPECT_TRUE(gathering.complete());
    std::this_thread::sleep_for(3ms);  // far beyond the spin time
  }
}

TEST_P(ThreadPoolOf, RethrowsTheExceptionOfATaskAndWorksOn) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> inside{0};
    auto fail = [&](Index index, int) {
      inside.fetch_add(1);
      std::this_thread::yield();
      inside.fetch_sub(1);
      if (index == 20) throw std::runtime_error("task 20");
    };
    try {
      pool.run(40, fail);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 20");
    }
    EXPECT_EQ(inside, 0);  // no task is left running behind the caller's back
  }
  Tally tally(100, GetParam());
  pool.run(100, tally);
  EXPECT_TRUE(tally.each_ran_once());
}

TEST_P(ThreadPoolOf, LeavesOutTasksAfterAnException) {
  ThreadPool pool(GetParam());
  std::atomic<Index> begun{0};
  auto fail = [&](Index index, int) {
    begun.fetch_add(1);
    if (index == 0) throw std::runtime_error("the first task");
    std::this_thread::sleep_for(50us);
  };
  EXPECT_THROW(pool.run(1'000'000, fail), std::runtime_error);
  EXPECT_LT(begun, 100'000);
}

TEST_P(ThreadPoolOf, RunsNestedCallsOnTheWorkerThatMakesThem) {
  ThreadPool pool(GetParam());
  std::atomic<int> inner_tasks{0};
  std::atomic<bool> elsewhere{false};
  auto outer = [&](Index, int) {
    const auto self = std::this_thread::get_id();
    auto inner = [&](Index, int worker) {
      inner_tasks.fetch_add(1);
      if (worker != 0 || std::this_thread::get_id() != self) elsewhere = true;
    };
    pool.run(5, inner);
  };
  pool.run(8, outer);
  EXPECT_EQ(inner_tasks, 40);
  EXPECT_EQ(elsewhere.load(), false);
}

TEST_P(ThreadPoolOf, ServesConcurrentCallersWithoutMoreWorkersThanItHas) {
  ThreadPool pool(GetParam());
  std::atomic<bool> right{true};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        Tally tally(20, GetParam());
        pool.run(20, tally);
        if (!tally.each_ran_once()) right = false;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(right);
}

INSTANTIATE_TEST_SUITE_P(Workers, ThreadPoolOf, ::testing::Values(1, 2, 3, 8),
                         [](const auto& workers) { return std::to_string(workers.param); });

TEST(ThreadPool, RunsOnTheCallersThreadAloneWhileAnotherThreadIsInside) {
  ThreadPool pool(2);
  std::atomic<bool> entered{false};
  std::atomic<bool> leave{false};
  std::thread owner([&] {
    auto wait = [&](Index, int) {
      entered = true;
      while (!leave) std::this_thread::yield();
    };
    pool.run(2, wait);
  });
  while (!entered) std::this_thread::yield();
  std::vector<std::thread::id> ids(10);
  auto note = [&](Index i, int worker) {
    EXPECT_EQ(worker, 0);
    ids[i] = std::this_thread::get_id();
  };
  pool.run(10, note);
  for (const auto& id : ids) EXPECT_EQ(id, std::this_thread::get_id());
  leave = true;
  owner.join();
}

TEST(ThreadPool, RunsSeriallyInsideATaskOfAnotherPool) {
  ThreadPool outer(2);
  ThreadPool inner(2);
  std::atomic<bool> elsewhere{false};
  auto task = [&](Index, int) {
    const auto self = std::this_thread::get_id();
    auto check = [&](Index, int) {
      if (std::this_thread::get_id() != self) elsewhere = true;
      std::this_thread::sleep_for(100us);
    };
    inner.run(20, check);
  };
  outer.run(2, task);
  EXPECT_FALSE(elsewhere);
}

TEST(ThreadPool, LetsALoneTaskUseThePool) {
  ThreadPool pool(2);
  Gathering gathering(2);
  auto inner = [&](Index, int) { gathering.arrive(); };
  auto lone = [&](Index, int) { pool.run(2, inner); };
  pool.run(1, lone);
  EXPECT_TRUE(gathering.complete());
}

TEST(ThreadPool, MakesTheCallerWorkerZero) {
  ThreadPool pool(3);
  std::atomic<bool> mixed_up{false};
  const auto caller = std::this_thread::get_id();
  auto check = [&](Index, int worker) {
    if ((worker == 0) != (std::this_thread::get_id() == caller)) mixed_up = true;
  };
  for (int round = 0; round < 100; ++round) pool.run(50, check);
  EXPECT_FALSE(mixed_up);
}

}  // namespace
}  // namespace headwise
