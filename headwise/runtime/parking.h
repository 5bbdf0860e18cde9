// SPDX-License-Identifier: Apache-2.0
// Where one thread waits for a change of atomics that other threads make.
#ifndef HEADWISE_RUNTIME_PARKING_H_
#define HEADWISE_RUNTIME_PARKING_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace headwise {

// Spins first, then sleeps. Not std::atomic::wait: its spin is a handful of yields that cannot be set, and GCC 12
// wakes through a table shared with every other atomic. A mutex and a condition variable are used only when somebody
// does sleep, and every sanitizer understands them.
class Parking {
 public:
  // Returns once ready() is true. ready() reads atomics in sequentially consistent order. The time spent spinning ends
  // early when futile() is true.
  template <class Ready, class Futile>
  void wait(Ready ready, std::chrono::nanoseconds spin, Futile futile) {
    if (spin.count() > 0 && spin_until(ready, spin, futile)) return;
    std::unique_lock lock(mutex_);
    asleep_.store(true);
    while (!ready()) woken_.wait(lock);
    asleep_.store(false);
  }

  // Called after a change that may make ready() true. The change and this load are in one total order with the store
  // of asleep_ and the sleeper's last look, so that one of the two sees the other.
  void wake() {
    if (!asleep_.load()) return;
    { std::lock_guard lock(mutex_); }
    woken_.notify_one();
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" : : : "memory");
#endif
  }

  template <class Ready, class Futile>
  static bool spin_until(Ready ready, std::chrono::nanoseconds spin, Futile futile) {
    constexpr int kLooksPerClock = 32;  // reading the clock costs as much as several looks
    const auto end = std::chrono::steady_clock::now() + spin;
    do {
      for (int look = 0; look < kLooksPerClock; ++look) {
        if (ready()) return true;
        pause();
      }
    } while (!futile() && std::chrono::steady_clock::now() < end);
    return false;
  }

  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable woken_;
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_PARKING_H_
