// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_TESTS_SUPPORT_TALLY_H_
#define HEADWISE_TESTS_SUPPORT_TALLY_H_

#include <algorithm>
#include <atomic>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// How often each task ran, and whether a worker index was ever out of range or used twice at once.
class Tally {
 public:
  Tally(Index tasks, int workers) : ran_(tasks), workers_(workers), active_(workers) {}

  void operator()(Index index, int worker) {
    if (worker < 0 || worker >= workers_ || active_[worker].exchange(true)) {
      broken_ = true;
      return;
    }
    ran_[index].fetch_add(1);
    active_[worker] = false;
  }
  bool each_ran_once() const {
    return !broken_ && std::all_of(ran_.begin(), ran_.end(), [](const auto& count) { return count == 1; });
  }

 private:
  std::vector<std::atomic<int>> ran_;
  const int workers_;
  std::vector<std::atomic<bool>> active_;
  std::atomic<bool> broken_{false};
};

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_TALLY_H_
