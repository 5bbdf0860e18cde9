// SPDX-License-Identifier: Apache-2.0
// How many threads a pool has: resized, started late, not started at all, ended.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "headwise/runtime/thread_pool.h"
#include "tests/support/gathering.h"
#include "tests/support/tally.h"

namespace headwise {
namespace {

using namespace std::chrono_literals;

TEST(ThreadPool, FollowsResizeUpAndDown) {
  ThreadPool pool(2);
  for (int workers : {4, 1, 3, 8, 2}) {
    pool.resize(workers);
    EXPECT_EQ(pool.workers(), workers);
    Gathering gathering(workers);
    std::atomic<int> highest{0};
    auto gather = [&](Index, int worker) {
      int seen = highest;
      while (worker > seen && !highest.compare_exchange_weak(seen, worker)) {
      }
      gathering.arrive();
    };
    pool.run(workers, gather);
    EXPECT_TRUE(gathering.complete());
    EXPECT_EQ(highest, workers - 1);
  }
}

TEST(ThreadPool, MayBeResizedWhileItRuns) {
  ThreadPool pool(2);
  std::atomic<bool> stop{false};
  std::thread resizer([&] {
    for (int i = 0; !stop; ++i) {
      pool.resize(1 + i % 4);
      std::this_thread::yield();
    }
  });
  bool right = true;
  for (int round = 0; round < 300; ++round) {
    Tally tally(30, 4);
    pool.run(30, tally);
    right = right && tally.each_ran_once();
  }
  stop = true;
  resizer.join();
  EXPECT_TRUE(right);
}

TEST(ThreadPool, StartsNoThreadBeforeThereIsWorkForIt) {
  int starts = 0;
  ThreadPool pool(4, [&] { ++starts; });
  auto nothing = [](Index, int) {};
  pool.run(1, nothing);
  EXPECT_EQ(starts, 0);
  pool.run(2, nothing);
  EXPECT_EQ(starts, 1);
  pool.run(100, nothing);
  EXPECT_EQ(starts, 3);
  pool.run(100, nothing);
  EXPECT_EQ(starts, 3);
}

TEST(ThreadPool, RunsSeriallyWhenNoThreadStarts) {
  int attempts = 0;
  ThreadPool pool(4, [&] {
    ++attempts;
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  for (int round = 0; round < 3; ++round) {
    int ran = 0;
    auto count = [&](Index, int worker) { ran += worker == 0; };
    pool.run(100, count);
    EXPECT_EQ(ran, 100);
  }
  EXPECT_EQ(attempts, 1);  // not once per run
}

TEST(ThreadPool, RunsWithFewerWorkersWhenSomeThreadsDoNotStart) {
  int starts = 0;
  ThreadPool pool(8, [&] {
    if (++starts > 2) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  Gathering gathering(3);
  std::atomic<bool> too_high{false};
  auto gather = [&](Index, int worker) {
    if (worker > 2) too_high = true;
    gathering.arrive();
  };
  pool.run(8, gather);
  EXPECT_TRUE(gathering.complete());
  EXPECT_FALSE(too_high);
}

TEST(ThreadPool, TriesAFailedStartAgainAfterASecond) {
  bool fail = true;
  ThreadPool pool(2, [&] {
    if (fail) throw std::bad_alloc();
  });
  auto nothing = [](Index, int) {};
  pool.run(2, nothing);
  fail = false;
  std::this_thread::sleep_for(1100ms);
  Gathering gathering(2);
  auto gather = [&](Index, int) { gathering.arrive(); };
  pool.run(2, gather);
  EXPECT_TRUE(gathering.complete());
}

TEST(ThreadPool, MayBeDestroyedWithAwakeAndWithSleepingWorkers) {
  auto nothing = [](Index, int) {};
  for (auto rest : {0ms, 2ms}) {
    for (int round = 0; round < 20; ++round) {
      auto pool = std::make_unique<ThreadPool>(3);
      pool->run(3, nothing);
      std::this_thread::sleep_for(rest);
    }
  }
}

}  // namespace
}  // namespace headwise
