// SPDX-License-Identifier: Apache-2.0
// Helper threads and the one job that they and the calling thread work off together.
#ifndef HEADWISE_RUNTIME_CREW_H_
#define HEADWISE_RUNTIME_CREW_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "headwise/runtime/execution.h"
#include "headwise/runtime/parking.h"

namespace headwise {

// True on a thread that is inside a task of any crew.
bool inside_task();

// Marks this thread as inside a task.
class InsideTask {
 public:
  InsideTask();
  InsideTask(const InsideTask&) = delete;
  InsideTask& operator=(const InsideTask&) = delete;
  ~InsideTask();

 private:
  const bool before_;
};

// One thread at a time may call its functions.
class Crew {
 public:
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  // Waits for the helpers to end.
  ~Crew();

  int helpers() const { return static_cast<int>(helpers_.size()); }

  // Starts threads until there are `count` helpers; false, with fewer of them, when the system starts no more.
  // `before_start` (may be empty) is called before each start, and what it throws counts as a failed one.
  bool start(int count, const std::function<void()>& before_start);

  // Ends those beyond `count`.
  void shrink(int count);

  // How long a waiting thread spins before it sleeps. Spinning pays only where every thread has a processor.
  void set_spin(std::chrono::nanoseconds spin) { spin_.store(spin.count(), std::memory_order_relaxed); }

  // Runs the tasks on the caller (worker 0) and the first `count` helpers (workers 1 to count). A helper that is not
  // awake when the others have claimed the last task is not waited for. Rethrows the first exception of a task.
  void run(Index tasks, TaskRef task, int count);

 private:
  // The caller writes kPosted and takes it back as kIdle; the helper writes kTaken and, when it is done, kIdle.
  enum class Order : std::uint32_t { kIdle, kPosted, kTaken, kStop };
  struct alignas(64) Helper {
    std::atomic<Order> order{Order::kIdle};
    std::atomic<int> cpu{-1};  // where it was when it took its last order
    Parking parking;
    std::thread thread;
  };

  void serve(Helper& helper, int worker);
  void work(int worker);
  void finish(Helper& helper);
  std::chrono::nanoseconds spin() const { return std::chrono::nanoseconds(spin_.load(std::memory_order_relaxed)); }

  std::vector<std::unique_ptr<Helper>> helpers_;
  std::atomic<std::int64_t> spin_{0};
  std::atomic<int> caller_cpu_{-1};  // where the caller was when it began its last run
  Parking caller_;

  // The job; written before an order is posted.
  Index tasks_ = 0;
  const TaskRef* task_ = nullptr;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  alignas(64) std::atomic<Index> next_{0};
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_CREW_H_
