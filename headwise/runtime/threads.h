// SPDX-License-Identifier: Apache-2.0
// The process-wide threads that every call uses unless its Execution names an executor.
#ifndef HEADWISE_RUNTIME_THREADS_H_
#define HEADWISE_RUNTIME_THREADS_H_

#include "headwise/runtime/execution.h"

namespace headwise {

// The default pool. It starts no thread before the first run that needs one, and the caller is always worker 0. A run
// begun while another thread is inside one, or from inside a task, runs on its own thread alone, as worker 0. It works
// on in a forked child, and sleeping workers never delay the end of the process.
Executor& threads();

// Sets how many threads the default pool uses, the calling one included, from the next run on. Arrays sized by an
// earlier workers() are then too short: what a task needs for itself is better taken from scratch.h.
// Throws ArgumentError unless count >= 1.
void set_num_threads(int count);

// At first: as many as the affinity mask and the cgroup's CPU quota let run at once.
int num_threads();

// Runs every task on the calling thread, in order.
class SerialExecutor final : public Executor {
 public:
  int workers() const override { return 1; }
  void run(Index tasks, TaskRef task) override {
    for (Index index = 0; index < tasks; ++index) task(index, 0);
  }
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_THREADS_H_
