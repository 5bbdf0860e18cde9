// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/interruptible.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <future>
#include <system_error>

namespace headwise::python {
namespace {

namespace nb = nanobind;

// About a millisecond on one fast core: below it nobody waits, above it a thread start does not show.
constexpr double kWorthWatching = 5e7;
constexpr std::chrono::milliseconds kBetweenLooks{25};

// Waits for the work; returns false when a signal handler raised (the Python error is then set).
bool wait_watching_signals(std::future<void>& done) {
  for (;;) {
    {
      nb::gil_scoped_release release;
      if (done.wait_for(kBetweenLooks) == std::future_status::ready) return true;
    }
    if (PyErr_CheckSignals() != 0) return false;
  }
}

}  // namespace

void run_interruptible(double operations, const std::function<void(const Execution&)>& work) {
  std::atomic<bool> cancel{false};
  Execution execution;
  execution.cancel = &cancel;
  std::future<void> done;
  if (operations >= kWorthWatching) {
    try {
      done = std::async(std::launch::async, [&] { work(execution); });
    } catch (const std::system_error&) {
      // No thread to be had: run here, without watching.
    }
  }
  if (!done.valid()) {
    nb::gil_scoped_release release;
    work(execution);
    return;
  }
  if (!wait_watching_signals(done)) {
    nb::python_error raised;
    cancel.store(true, std::memory_order_relaxed);
    {
      nb::gil_scoped_release release;
      done.wait();
    }
    throw raised;
  }
  done.get();
}

}  // namespace headwise::python
