// SPDX-License-Identifier: Apache-2.0
// Persistent threads that work off one run at a time together with the thread that asked for it.
#ifndef HEADWISE_RUNTIME_THREAD_POOL_H_
#define HEADWISE_RUNTIME_THREAD_POOL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "headwise/runtime/crew.h"
#include "headwise/runtime/execution.h"

namespace headwise {

// Threads start with the first run that has work for them. Tasks are claimed one by one, so which worker has which is
// open. A run is serial, as worker 0 of its own thread, when another thread is inside run(), when it comes from inside
// a task, or when no thread can be started; a start that failed is tried again after a second. In a forked child the
// pool begins anew, even if the fork met it in the middle of a run. A child forked by a task must not return from it.
class ThreadPool final : public Executor {
 public:
  // `before_start` is for tests: called before each start of a thread, and what it throws counts as a failed start.
  explicit ThreadPool(int workers, std::function<void()> before_start = {});
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // No run may be under way. Waits for the threads to end.
  ~ThreadPool() override;

  int workers() const override { return workers_.load(std::memory_order_relaxed); }
  void run(Index tasks, TaskRef task) override;

  // From the next run on; workers >= 1. Any thread may call it at any time.
  void resize(int workers) { workers_.store(workers, std::memory_order_relaxed); }

 private:
  bool try_acquire();
  void release();
  int prepare(int workers, Index tasks);

  std::atomic<int> workers_;
  const std::function<void()> before_start_;
  // 2 * fork_count() + 1 while a thread of this process is inside run(); what a parent left here counts as idle.
  std::atomic<std::uint64_t> busy_{0};

  // Only touched by the thread that is inside run().
  std::unique_ptr<Crew> crew_;
  std::uint64_t crew_forks_ = 0;
  int spin_for_ = 0;  // the worker count that the crew's spin time was chosen for
  std::chrono::steady_clock::time_point no_start_before_{};
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_THREAD_POOL_H_
