// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of this whole test program by one that counts, and can be told to fail.
#include "tests/support/counted_heap.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

namespace headwise::testing {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constinit std::atomic<std::int64_t> blocks{0}, bytes{0}, peak{0}, asked{0}, first_refused{kNever}, last_refused{kNever};

void* take(std::size_t size, std::size_t alignment) {
  const std::int64_t number = asked.fetch_add(1, std::memory_order_relaxed);
  if (number >= first_refused.load(std::memory_order_relaxed) &&
      number <= last_refused.load(std::memory_order_relaxed)) {
    throw std::bad_alloc();
  }
  const std::size_t wanted = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, wanted);
  if (block == nullptr) throw std::bad_alloc();
  blocks.fetch_add(1, std::memory_order_relaxed);
  const auto size_now = static_cast<std::int64_t>(malloc_usable_size(block));
  const std::int64_t now = bytes.fetch_add(size_now, std::memory_order_relaxed) + size_now;
  std::int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  return block;
}

void give_back(void* block) {
  if (block == nullptr) return;
  blocks.fetch_sub(1, std::memory_order_relaxed);
  bytes.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
  std::free(block);
}

}  // namespace

std::int64_t live_blocks() { return blocks.load(); }
std::int64_t live_bytes() { return bytes.load(); }
std::int64_t peak_bytes() { return peak.load(); }
void restart_peak() { peak.store(bytes.load()); }

RefusedAllocations::RefusedAllocations(std::int64_t first, std::int64_t count) {
  asked.store(0);
  last_refused.store(count < kNever - first ? first + count - 1 : kNever);
  first_refused.store(first);
}
RefusedAllocations::~RefusedAllocations() {
  first_refused.store(kNever);
  last_refused.store(kNever);
}
std::int64_t RefusedAllocations::seen() { return asked.load(); }

namespace {

TEST(CountedHeap, CountsAndRefuses) {
  const std::int64_t before = live_bytes(), held = live_blocks();
  restart_peak();
  {
    auto block = std::make_unique<char[]>(100'000);
    block[5] = 1;
    EXPECT_GE(live_bytes(), before + 100'000);
    EXPECT_EQ(live_blocks(), held + 1);
  }
  EXPECT_EQ(live_bytes(), before);
  EXPECT_GE(peak_bytes(), before + 100'000);
  bool refused = false;
  try {
    const RefusedAllocations refusal(1, 1);
    const auto first = std::make_unique<int>(1);
    const auto second = std::make_unique<int>(2);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace headwise::testing

// Every form, since a sanitizer brings its own of those that are left out, and they would not go together.
void* operator new(std::size_t size) { return headwise::testing::take(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return headwise::testing::take(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
void operator delete(void* block) noexcept { headwise::testing::give_back(block); }
void operator delete[](void* block) noexcept { headwise::testing::give_back(block); }
void operator delete(void* block, std::size_t) noexcept { headwise::testing::give_back(block); }
void operator delete[](void* block, std::size_t) noexcept { headwise::testing::give_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { headwise::testing::give_back(block); }
void operator delete[](void* block, std::align_val_t) noexcept { headwise::testing::give_back(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { headwise::testing::give_back(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { headwise::testing::give_back(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { headwise::testing::give_back(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { headwise::testing::give_back(block); }
