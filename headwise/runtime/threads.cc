// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/threads.h"

#include <atomic>
#include <memory>
#include <string>

#include "headwise/runtime/cpu.h"
#include "headwise/runtime/thread_pool.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// Never destroyed: its threads sleep on it until the process is gone. Made without a lock, so that a fork in the
// middle of the first use leaves nothing locked in the child.
ThreadPool& default_pool() {
  static constinit std::atomic<ThreadPool*> pool{nullptr};
  ThreadPool* present = pool.load(std::memory_order_acquire);
  if (present == nullptr) {
    auto made = std::make_unique<ThreadPool>(usable_cpus());
    if (pool.compare_exchange_strong(present, made.get(), std::memory_order_acq_rel)) present = made.release();
  }
  return *present;
}

}  // namespace

Executor& threads() { return default_pool(); }

void set_num_threads(int count) {
  if (count < 1) {
    throw ArgumentError("set_num_threads: count must be at least 1, got " + std::to_string(count));
  }
  default_pool().resize(count);
}

int num_threads() { return default_pool().workers(); }

}  // namespace headwise
