// SPDX-License-Identifier: Apache-2.0
// The one way in which kernels run in parallel: cancel flag, progress and floating-point mode are seen to here.
#ifndef HEADWISE_RUNTIME_RUN_TASKS_H_
#define HEADWISE_RUNTIME_RUN_TASKS_H_

#include "headwise/runtime/execution.h"

namespace headwise {

// Runs task(index, worker) for every index in [0, tasks) on execution.executor, or on threads() if that is null. Each
// task runs with the FloatingPointMode of the library. The cancel flag is read before the first task and between
// tasks; once it is raised no task begins, and Cancelled is thrown. execution.progress is called after tasks of the
// calling thread and once at the end with (tasks, tasks); an exception it throws ends the run like one of a task.
void run_tasks(const Execution& execution, Index tasks, TaskRef task);

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_RUN_TASKS_H_
