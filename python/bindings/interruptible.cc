// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/interruptible.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <optional>

#include "headwise/runtime/threads.h"
#include "python/bindings/runner.h"

namespace headwise::python {
namespace {

namespace nb = nanobind;

// About a millisecond on fast cores, and a fifth of a second on the slowest path: nobody waits below it, and above it a
// change of threads does not show.
constexpr double kWorthWatching = 1e8;
// Some ten microseconds on one thread: less than what waking others and waiting for them costs.
constexpr double kWorthSharing = 1e5;
// Often enough for anybody, too rare to cost anything.
constexpr std::chrono::milliseconds kBetweenLooks{25};

// Python runs its signal handlers on the main thread only.
bool on_main_thread() {
  static const unsigned long main_thread =
      nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main_thread;
}

void run_here(double operations, const std::function<void(const Execution&)>& work) {
  const nb::gil_scoped_release release;
  Execution execution;
  SerialExecutor alone;
  if (operations < kWorthSharing) execution.executor = &alone;
  work(execution);
}

// Waits for the job. Returns what a signal handler raised, if one did; `cancel` is then up and the job has ended.
std::optional<nb::python_error> wait_watching_signals(Runner& runner, std::atomic<bool>& cancel) {
  for (;;) {
    {
      const nb::gil_scoped_release release;
      if (runner.wait_for(kBetweenLooks)) return std::nullopt;
    }
    if (PyErr_CheckSignals() == 0) continue;
    std::optional<nb::python_error> raised(std::in_place);
    cancel.store(true, std::memory_order_relaxed);
    const nb::gil_scoped_release release;
    runner.wait();
    return raised;
  }
}

}  // namespace

void run_interruptible(double operations, const std::function<void(const Execution&)>& work) {
  if (operations < kWorthWatching || !on_main_thread()) return run_here(operations, work);
  const BorrowedRunner borrowed;
  if (borrowed.get() == nullptr) return run_here(operations, work);
  std::atomic<bool> cancel{false};
  Execution execution;
  execution.cancel = &cancel;
  borrowed.get()->start([&] { work(execution); });
  std::optional<nb::python_error> raised = wait_watching_signals(*borrowed.get(), cancel);
  if (raised) throw std::move(*raised);
  borrowed.get()->rethrow();
}

}  // namespace headwise::python
