// SPDX-License-Identifier: Apache-2.0
// One thread that long calls run on. It is kept, so that its working memory is kept too.
#ifndef HEADWISE_PYTHON_BINDINGS_RUNNER_H_
#define HEADWISE_PYTHON_BINDINGS_RUNNER_H_

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

namespace headwise::python {

// Never destroyed: its thread sleeps on it until the process is gone.
class Runner {
 public:
  // Throws std::system_error when no thread can be started.
  Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void start(std::function<void()> job);
  // True as soon as the job has ended.
  bool wait_for(std::chrono::milliseconds time);
  void wait();
  // What the job threw, rethrown.
  void rethrow();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // empty: done
  std::exception_ptr thrown_;
};

// The runner of this process, or none: it is in use, or no thread can be started. Called under the GIL.
class BorrowedRunner {
 public:
  BorrowedRunner();
  BorrowedRunner(const BorrowedRunner&) = delete;
  BorrowedRunner& operator=(const BorrowedRunner&) = delete;
  ~BorrowedRunner();

  Runner* get() const { return runner_; }

 private:
  Runner* runner_ = nullptr;
};

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_RUNNER_H_
