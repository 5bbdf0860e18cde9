// SPDX-License-Identifier: Apache-2.0
// Forked children and the end of the process, with the pool asleep, awake and in the middle of a run.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "headwise/runtime/fork_count.h"
#include "headwise/runtime/thread_pool.h"
#include "headwise/runtime/threads.h"

// These tests start threads in a forked child, which the thread sanitizer refuses unless told otherwise. Its library
// looks the name up, so it must be visible.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace headwise {
namespace {

using namespace std::chrono_literals;

bool sums_right(Executor& executor) {
  std::vector<Index> values(1000);
  auto fill = [&](Index i, int) { values[i] = i; };
  for (int round = 0; round < 20; ++round) executor.run(1000, fill);
  return std::accumulate(values.begin(), values.end(), Index{0}) == 499500;
}

// Ends only if two workers are inside at once; a child in which it hangs is ended by its alarm.
void meet(Executor& executor) {
  std::atomic<int> arrived{0};
  auto gather = [&](Index, int) {
    arrived.fetch_add(1);
    while (arrived < 2) std::this_thread::yield();
  };
  executor.run(2, gather);
}

// Runs `body` in a forked child and gives its exit code, or minus the signal that ended it.
template <class Body>
int in_forked_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Fork, IsCountedInTheChildOnly) {
  const std::uint64_t before = fork_count();
  EXPECT_EQ(in_forked_child([&] { return fork_count() == before + 1; }), 0);
  EXPECT_EQ(fork_count(), before);
}

TEST(Fork, LeavesAPoolThatWorksInBothProcesses) {
  set_num_threads(2);
  Executor& executor = threads();
  EXPECT_TRUE(sums_right(executor));
  EXPECT_EQ(in_forked_child([&] {
              meet(executor);  // the child has threads of its own, through the reference from before the fork
              return sums_right(executor) && num_threads() == 2;
            }),
            0);
  EXPECT_TRUE(sums_right(executor));
}

TEST(Fork, OfASleepingPoolWorksAsWell) {
  ThreadPool pool(3);
  EXPECT_TRUE(sums_right(pool));
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(in_forked_child([&] {
              meet(pool);
              return sums_right(pool);
            }),
            0);
}

TEST(Fork, WorksInAChildOfAChild) {
  set_num_threads(2);
  EXPECT_TRUE(sums_right(threads()));
  EXPECT_EQ(in_forked_child([] {
              if (!sums_right(threads())) return false;
              return in_forked_child([] { return sums_right(threads()); }) == 0;
            }),
            0);
}

// In the next two the other threads allocate nothing at the time of the fork: the address sanitizer's allocator, unlike
// the C library's, stays locked in a child whose parent was inside it.
TEST(Fork, InTheMiddleOfAnotherThreadsRunGivesTheChildAFreePool) {
  ThreadPool pool(3);
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> entered{0};
    std::atomic<bool> leave{false};
    std::thread owner([&] {
      auto wait = [&](Index, int) {
        entered.fetch_add(1);
        while (!leave) std::this_thread::yield();
      };
      pool.run(3, wait);
    });
    while (entered < 3) std::this_thread::yield();
    EXPECT_EQ(in_forked_child([&] {
                meet(pool);  // would hang if the parent's run still counted as busy
                return sums_right(pool);
              }),
              0);
    leave = true;
    owner.join();
  }
  EXPECT_TRUE(sums_right(pool));
}

TEST(Fork, WhileAnotherThreadRunsAllTheTime) {
  ThreadPool pool(2);
  meet(pool);
  std::atomic<int> runs{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> right{true};
  std::thread owner([&] {
    std::vector<Index> values(100);
    for (Index run = 0; !stop; ++run) {
      auto fill = [&](Index i, int) { values[i] = i * run; };
      pool.run(100, fill);
      if (std::accumulate(values.begin(), values.end(), Index{0}) != 4950 * run) right = false;
      runs.fetch_add(1);
    }
  });
  for (int round = 0; round < 20; ++round) {
    const int before = runs;
    while (runs == before) std::this_thread::yield();
    EXPECT_EQ(in_forked_child([&] { return sums_right(pool); }), 0);
  }
  stop = true;
  owner.join();
  EXPECT_TRUE(right);
}

TEST(Fork, InATaskOfTheCallerEndsTheChildsRunWithAnError) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  std::string message;
  bool is_child = false;
  pid_t child = 0;
  std::atomic<bool> helper_inside{false};
  auto task = [&](Index, int) {
    if (std::this_thread::get_id() != caller) {
      helper_inside = true;
      std::this_thread::sleep_for(20ms);
      return;
    }
    while (!helper_inside) std::this_thread::yield();
    if (child != 0) return;
    child = fork();
    is_child = child == 0;
    if (is_child) {
      alarm(60);
      child = 1;
    }
  };
  try {
    pool.run(2, task);
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  if (is_child) {
    const bool told = message == "threads: a process forked inside a task cannot finish the run it was forked from";
    _exit(told && sums_right(pool) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(message, "");
}

TEST(Fork, MayDestroyThePoolOfItsParentInTheChild) {
  auto* pool = new ThreadPool(3);
  EXPECT_TRUE(sums_right(*pool));
  EXPECT_EQ(in_forked_child([&] {
              delete pool;
              return true;
            }),
            0);
  EXPECT_TRUE(sums_right(*pool));
  delete pool;
}

class ProcessExit : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ProcessExit, IsCleanWithAwakeWorkers) {
  EXPECT_EXIT(
      {
        alarm(60);
        set_num_threads(3);
        std::exit(sums_right(threads()) ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "^$");
}

TEST_F(ProcessExit, IsCleanWithSleepingWorkers) {
  EXPECT_EXIT(
      {
        alarm(60);
        set_num_threads(3);
        const bool right = sums_right(threads());
        std::this_thread::sleep_for(10ms);
        std::exit(right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "^$");
}

struct RunsInItsDestructor {
  ~RunsInItsDestructor() {
    if (!sums_right(threads())) _exit(7);
  }
};

TEST_F(ProcessExit, LetsDestructorsOfStaticsUseThePool) {
  EXPECT_EXIT(
      {
        alarm(60);
        set_num_threads(2);
        static const RunsInItsDestructor late;
        std::exit(sums_right(threads()) ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace headwise
