// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/runner.h"

#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

namespace headwise::python {
namespace {

// A forked child has no thread of its parent's: it starts one of its own. Guarded by the GIL.
Runner* kept = nullptr;
pid_t kept_by = 0;
bool in_use = false;

}  // namespace

Runner::Runner() {
  std::thread([this] { serve(); }).detach();
}

void Runner::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return job_ != nullptr; });
    lock.unlock();
    std::exception_ptr thrown;
    try {
      job_();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    thrown_ = thrown;
    job_ = nullptr;
    changed_.notify_all();
  }
}

void Runner::start(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  thrown_ = nullptr;
  job_ = std::move(job);
  changed_.notify_all();
}

bool Runner::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return job_ == nullptr; });
}

void Runner::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return job_ == nullptr; });
}

void Runner::rethrow() {
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

BorrowedRunner::BorrowedRunner() {
  if (kept_by != getpid()) {
    kept = nullptr;
    in_use = false;
    kept_by = getpid();
  }
  if (in_use) return;
  try {
    if (kept == nullptr) kept = new Runner;
  } catch (const std::system_error&) {
    return;
  }
  runner_ = kept;
  in_use = true;
}

BorrowedRunner::~BorrowedRunner() {
  if (runner_ != nullptr) in_use = false;
}

}  // namespace headwise::python
