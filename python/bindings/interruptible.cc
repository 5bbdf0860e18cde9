// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/interruptible.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>

namespace headwise::python {
namespace {

namespace nb = nanobind;
using Clock = std::chrono::steady_clock;

// Taking the GIL may wait for another Python thread: too rare to cost anything, too often for anybody to notice.
constexpr std::chrono::milliseconds kBetweenLooks{25};

// Asks Python for signals from the thread that made the call, between two of its tasks.
class SignalWatch {
 public:
  void look() {
    const Clock::time_point now = Clock::now();
    if (raised_ || now < next_look_) return;
    next_look_ = now + kBetweenLooks;
    const nb::gil_scoped_acquire acquire;
    raised_ = PyErr_CheckSignals() != 0;  // the error stays set in this thread until it is thrown
    if (raised_) cancel.store(true, std::memory_order_relaxed);
  }
  bool raised() const { return raised_; }

  std::atomic<bool> cancel{false};

 private:
  Clock::time_point next_look_ = Clock::now() + kBetweenLooks;
  bool raised_ = false;
};

}  // namespace

void run_interruptible(const std::function<void(const Execution&)>& work) {
  SignalWatch watch;
  Execution execution;
  execution.cancel = &watch.cancel;
  execution.progress = [&watch](Index, Index) { watch.look(); };
  try {
    const nb::gil_scoped_release release;
    work(execution);
  } catch (const Cancelled&) {
    if (!watch.raised()) throw;
  }
  if (watch.raised()) throw nb::python_error();
}

}  // namespace headwise::python
