// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "headwise/runtime/cpu.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// In a process of its own, since other tests set the number.
TEST(Threads, AreAtFirstAsManyAsTheMachineLetsRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(num_threads() == usable_cpus() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(Threads, HaveTheNumberThatWasSet) {
  for (int count : {3, 1, 2}) {
    set_num_threads(count);
    EXPECT_EQ(num_threads(), count);
    EXPECT_EQ(threads().workers(), count);
  }
}

TEST(Threads, RefuseANumberBelowOne) {
  const int before = num_threads();
  for (int count : {0, -1}) {
    try {
      set_num_threads(count);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.what(), "set_num_threads: count must be at least 1, got " + std::to_string(count));
    }
  }
  EXPECT_EQ(num_threads(), before);
}

TEST(Threads, AreNeverMoreThanSetAtOnce) {
  set_num_threads(3);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  auto task = [&](Index, int) {
    const int now = inside.fetch_add(1) + 1;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::yield();
    inside.fetch_sub(1);
  };
  for (int round = 0; round < 50; ++round) threads().run(100, task);
  EXPECT_LE(most, 3);
}

TEST(Threads, FirstUsedByManyThreadsAtOnceAreOnePool) {
  std::vector<Executor*> seen(8);
  std::vector<std::thread> users;
  for (int user = 0; user < 8; ++user) {
    users.emplace_back([&, user] { seen[user] = &threads(); });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(std::set<Executor*>(seen.begin(), seen.end()).size(), 1U);
}

TEST(Threads, CountOnlyProcessorsOfTheAffinityMask) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_LE(usable_cpus(), CPU_COUNT(&all));
  EXPECT_GE(usable_cpus(), 1);
}

TEST(SerialExecutor, RunsInOrderOnTheCallingThread) {
  SerialExecutor serial;
  EXPECT_EQ(serial.workers(), 1);
  std::vector<Index> order;
  auto note = [&](Index index, int worker) {
    EXPECT_EQ(worker, 0);
    order.push_back(index);
  };
  serial.run(5, note);
  EXPECT_EQ(order, (std::vector<Index>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace headwise
