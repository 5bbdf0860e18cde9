// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_TESTS_SUPPORT_GATHERING_H_
#define HEADWISE_TESTS_SUPPORT_GATHERING_H_

#include <atomic>
#include <chrono>
#include <thread>

namespace headwise {

// Holds every task until `count` of them are inside at the same time, so that as many workers must take part.
class Gathering {
 public:
  explicit Gathering(int count) : count_(count) {}
  void arrive() {
    arrived_.fetch_add(1);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived_.load() < count_) {
      if (std::chrono::steady_clock::now() > give_up) {
        gave_up_ = true;
        return;
      }
      std::this_thread::yield();
    }
  }
  // Whether all of them met; false when some gave up after 20 s.
  bool complete() const { return arrived_ >= count_ && !gave_up_; }

 private:
  const int count_;
  std::atomic<int> arrived_{0};
  std::atomic<bool> gave_up_{false};
};

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_GATHERING_H_
