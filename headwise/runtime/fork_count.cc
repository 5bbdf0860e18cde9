// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/fork_count.h"

#include <pthread.h>

#include <atomic>

namespace headwise {
namespace {

constinit std::atomic<std::uint64_t> forks{0};

// Registered at load time and not at first use: a fork that meets another thread inside a first use would leave the
// child with a half-done registration.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint64_t fork_count() { return forks.load(std::memory_order_relaxed); }

}  // namespace headwise
