// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/run_tasks.h"

#include <atomic>
#include <thread>

#include "headwise/runtime/floating_point_mode.h"
#include "headwise/runtime/threads.h"

namespace headwise {
namespace {

void run_watched(const Execution& execution, Executor& executor, Index tasks, TaskRef task) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<Index> done{0};
  Index reported = 0;
  auto watched = [&](Index index, int worker) {
    if (execution.cancelled()) throw Cancelled();
    {
      const FloatingPointMode mode;
      task(index, worker);
    }
    if (!execution.progress) return;
    const Index so_far = done.fetch_add(1, std::memory_order_relaxed) + 1;
    if (std::this_thread::get_id() != caller) return;
    reported = so_far;
    execution.progress(so_far, tasks);
  };
  executor.run(tasks, watched);
  if (execution.progress && reported != tasks) execution.progress(tasks, tasks);
}

}  // namespace

void run_tasks(const Execution& execution, Index tasks, TaskRef task) {
  if (execution.cancelled()) throw Cancelled();
  if (tasks <= 0) return;
  Executor& executor = execution.executor != nullptr ? *execution.executor : threads();
  if (execution.cancel != nullptr || execution.progress) return run_watched(execution, executor, tasks, task);
  auto plain = [task](Index index, int worker) {
    const FloatingPointMode mode;
    task(index, worker);
  };
  executor.run(tasks, plain);
}

}  // namespace headwise
