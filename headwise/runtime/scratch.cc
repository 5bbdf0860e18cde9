// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/scratch.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace headwise {
namespace {

constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;

constinit std::atomic<std::uint64_t> all_allocations{0};

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// With the address sanitizer, memory that no frame has taken traps, and so does a gap after each piece.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kGap = 64;
void allow(const void* data, std::size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
void forbid(const void* data, std::size_t bytes) { __asan_poison_memory_region(data, bytes); }
#else
constexpr std::size_t kGap = 0;
void allow(const void*, std::size_t) {}
void forbid(const void*, std::size_t) {}
#endif

}  // namespace

Scratch::~Scratch() {
  for (const Block& block : blocks_) allow(block.data.get(), block.bytes);
}

std::size_t Scratch::held_bytes() const {
  std::size_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes;
  return bytes;
}

void* Scratch::take(std::size_t bytes) {
  const std::size_t step = round_up(std::max<std::size_t>(bytes, 1), kAlignment) + kGap;
  while (top_.block < blocks_.size() && blocks_[top_.block].bytes - top_.used < step) {
    ++top_.block;
    top_.used = 0;
  }
  if (top_.block == blocks_.size()) add_block(step);
  std::byte* taken = blocks_[top_.block].data.get() + top_.used;
  top_.used += step;
  top_.live += step;
  peak_ = std::max(peak_, top_.live);
  allow(taken, bytes);
  return taken;
}

// At least `bytes`, and as much again as there is, so that growing takes few blocks.
void Scratch::add_block(std::size_t bytes) {
  const std::size_t wanted = std::max({bytes, blocks_.empty() ? first_ : held_bytes(), kSmallestBlock});
  const bool huge = wanted >= kHugePage;
  const std::size_t alignment = huge ? kHugePage : kAlignment;
  const std::size_t size = round_up(wanted, huge ? kHugePage : kAlignment);
  blocks_.reserve(blocks_.size() + 1);
  std::unique_ptr<std::byte, Free> data(static_cast<std::byte*>(::operator new (size, std::align_val_t{alignment})),
                                        Free{alignment});
  if (huge) static_cast<void>(madvise(data.get(), size, MADV_HUGEPAGE));  // a wish: small pages do as well
  forbid(data.get(), size);
  blocks_.push_back({std::move(data), size});
  ++allocations_;
  all_allocations.fetch_add(1, std::memory_order_relaxed);
}

void Scratch::close(const Mark& mark) {
  for (std::size_t i = mark.block; i <= top_.block && i < blocks_.size(); ++i) {
    const std::size_t from = i == mark.block ? mark.used : 0;
    forbid(blocks_[i].data.get() + from, blocks_[i].bytes - from);
  }
  top_ = mark;
  if (--frames_ == 0) settle();
}

void Scratch::settle() {
  if (blocks_.size() > 1 || held_bytes() > kKeepBytes) {
    for (const Block& block : blocks_) allow(block.data.get(), block.bytes);
    blocks_.clear();
    first_ = std::min(peak_, kKeepBytes);
  }
  peak_ = 0;
}

Scratch& scratch_for_this_thread() {
  static thread_local Scratch scratch;
  return scratch;
}

std::uint64_t scratch_allocations() { return all_allocations.load(std::memory_order_relaxed); }

}  // namespace headwise
