// SPDX-License-Identifier: Apache-2.0
// How a call is run: on which threads, and how it is stopped or watched.
#ifndef HEADWISE_RUNTIME_EXECUTION_H_
#define HEADWISE_RUNTIME_EXECUTION_H_

#include <atomic>
#include <functional>
#include <stdexcept>

#include "headwise/runtime/function_ref.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// Thrown out of a call whose cancel flag was raised. Outputs are then unspecified.
struct Cancelled : std::runtime_error {
  Cancelled() : std::runtime_error("the call was cancelled") {}
};

// task(index, worker)
using TaskRef = FunctionRef<void(Index, int)>;

// Runs independent tasks. Results never depend on which worker runs which task.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual int workers() const = 0;
  // Calls task(index, worker) once for every index in [0, tasks); worker is in [0, workers()), and no two tasks that
  // run at the same time have the same one. Returns when all are done. After an exception of a task the tasks not yet
  // begun may be left out; when the others have ended, the first exception is rethrown.
  virtual void run(Index tasks, TaskRef task) = 0;
};

struct Execution {
  Executor* executor = nullptr;                  // null: the process-wide pool
  const std::atomic<bool>* cancel = nullptr;     // raised by another thread or a signal handler
  std::function<void(Index, Index)> progress{};  // (done, total), from the calling thread

  bool cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_EXECUTION_H_
