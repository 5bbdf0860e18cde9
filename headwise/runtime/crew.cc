// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/crew.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "headwise/runtime/fork_count.h"

namespace headwise {
namespace {

constinit thread_local bool this_thread_inside_task = false;

// Spinning on the processor that the other thread needs only keeps it from running.
bool shares_cpu(const std::atomic<int>& other) { return other.load(std::memory_order_relaxed) == sched_getcpu(); }

// Signals meant for the process go to the application's threads: a helper inherits this mask. The synchronous ones
// stay open, since blocking them would turn a handled fault into a kill, and so does a profiler's.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) sigdelset(&blocked, open);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

bool inside_task() { return this_thread_inside_task; }

InsideTask::InsideTask() : before_(std::exchange(this_thread_inside_task, true)) {}
InsideTask::~InsideTask() { this_thread_inside_task = before_; }

Crew::~Crew() { shrink(0); }

bool Crew::start(int count, const std::function<void()>& before_start) {
  const BlockedSignals blocked;
  try {
    while (helpers() < count) {
      if (before_start) before_start();
      auto helper = std::make_unique<Helper>();
      helpers_.reserve(helpers_.size() + 1);
      const int worker = helpers() + 1;
      helper->thread = std::thread([this, &place = *helper, worker] { serve(place, worker); });
      const std::string name = "headwise-" + std::to_string(worker);
      pthread_setname_np(helper->thread.native_handle(), name.substr(0, 15).c_str());
      helpers_.push_back(std::move(helper));
    }
  } catch (const std::exception&) {  // std::system_error of a thread, std::bad_alloc
    return false;
  }
  return true;
}

void Crew::shrink(int count) {
  while (helpers() > count) {
    Helper& last = *helpers_.back();
    last.order.store(Order::kStop);
    last.parking.wake();
    last.thread.join();
    helpers_.pop_back();
  }
}

void Crew::run(Index tasks, TaskRef task, int count) {
  const std::uint64_t forks = fork_count();
  tasks_ = tasks;
  task_ = &task;
  failed_.store(false, std::memory_order_relaxed);
  error_ = nullptr;
  next_.store(0, std::memory_order_relaxed);
  caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) {
    helpers_[i]->order.store(Order::kPosted);
    helpers_[i]->parking.wake();
  }
  work(0);
  if (fork_count() != forks) {  // a task of this thread forked, and this is the child: nobody would answer
    throw std::runtime_error("threads: a process forked inside a task cannot finish the run it was forked from");
  }
  for (int i = 0; i < count; ++i) finish(*helpers_[i]);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Crew::finish(Helper& helper) {
  Order posted = Order::kPosted;
  if (helper.order.compare_exchange_strong(posted, Order::kIdle)) return;
  caller_.wait([&helper] { return helper.order.load() == Order::kIdle; }, spin(),
               [&helper] { return shares_cpu(helper.cpu); });
}

void Crew::serve(Helper& helper, int worker) {
  while (true) {
    helper.parking.wait([&helper] { return helper.order.load() != Order::kIdle; }, spin(),
                        [this] { return shares_cpu(caller_cpu_); });
    Order order = Order::kPosted;
    if (helper.order.compare_exchange_strong(order, Order::kTaken)) {
      helper.cpu.store(sched_getcpu(), std::memory_order_relaxed);
      work(worker);
      helper.order.store(Order::kIdle);
      caller_.wake();
    } else if (order == Order::kStop) {
      return;
    }
  }
}

void Crew::work(int worker) {
  const InsideTask inside;
  try {
    const Index tasks = tasks_;
    const TaskRef task = *task_;
    while (true) {
      const Index index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= tasks) return;
      task(index, worker);
    }
  } catch (...) {
    if (!failed_.exchange(true)) error_ = std::current_exception();
    next_.store(tasks_, std::memory_order_relaxed);
  }
}

}  // namespace headwise
