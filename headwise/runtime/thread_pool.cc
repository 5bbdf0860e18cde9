// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/thread_pool.h"

#include <algorithm>
#include <utility>

#include "headwise/runtime/cpu.h"
#include "headwise/runtime/fork_count.h"

namespace headwise {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::seconds kRetryStart{1};

void run_serially(Index tasks, TaskRef task) {
  for (Index index = 0; index < tasks; ++index) task(index, 0);
}

}  // namespace

ThreadPool::ThreadPool(int workers, std::function<void()> before_start)
    : workers_(workers), before_start_(std::move(before_start)) {}

ThreadPool::~ThreadPool() {
  // The parent's threads do not exist here; their memory is left alone.
  if (crew_forks_ != fork_count()) static_cast<void>(crew_.release());
}

void ThreadPool::run(Index tasks, TaskRef task) {
  const int wanted = workers();
  if (tasks <= 1 || wanted == 1) return run_serially(tasks, task);  // what a lone task calls may still use the pool
  if (inside_task()) return run_serially(tasks, task);
  if (!try_acquire()) {
    const InsideTask serial;
    return run_serially(tasks, task);
  }
  struct Release {
    ThreadPool& pool;
    ~Release() { pool.release(); }
  } const release{*this};
  const int helpers = prepare(wanted, tasks);
  crew_->run(tasks, task, helpers);
}

bool ThreadPool::try_acquire() {
  const std::uint64_t busy = 2 * fork_count() + 1;
  std::uint64_t seen = busy_.load(std::memory_order_relaxed);
  while (seen != busy) {
    if (busy_.compare_exchange_weak(seen, busy, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  }
  return false;
}

void ThreadPool::release() { busy_.store(2 * fork_count(), std::memory_order_release); }

// Makes the crew fit the run and gives the number of helpers that take part.
int ThreadPool::prepare(int workers, Index tasks) {
  if (crew_forks_ != fork_count()) {
    static_cast<void>(crew_.release());
    crew_forks_ = fork_count();
    no_start_before_ = {};
  }
  if (!crew_) {
    crew_ = std::make_unique<Crew>();
    spin_for_ = 0;
  }
  if (spin_for_ != workers) {
    crew_->shrink(workers - 1);
    crew_->set_spin(workers <= usable_cpus() ? kSpin : std::chrono::nanoseconds(0));
    spin_for_ = workers;
  }
  const int helpers = static_cast<int>(std::min<Index>(workers, tasks)) - 1;
  if (crew_->helpers() < helpers && steady_clock::now() >= no_start_before_) {
    if (!crew_->start(helpers, before_start_)) no_start_before_ = steady_clock::now() + kRetryStart;
  }
  return std::min(helpers, crew_->helpers());
}

}  // namespace headwise
