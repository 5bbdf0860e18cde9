// SPDX-License-Identifier: Apache-2.0
// Working memory of a thread: taken and given back in frames, so that a call like the last one allocates nothing.
#ifndef HEADWISE_RUNTIME_SCRATCH_H_
#define HEADWISE_RUNTIME_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// A stack of bytes that grows by blocks; what was taken never moves. When the last frame closes, several blocks are
// replaced by one large enough for all of them (at the next take), and memory above kKeepBytes is given back.
class Scratch {
 public:
  static constexpr std::size_t kAlignment = 64;
  // Blocks from here on lie on huge pages where the system grants them.
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  // The most that a thread holds between calls.
  static constexpr std::size_t kKeepBytes = std::size_t{64} << 20;

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // Bytes in its blocks, and how many blocks it ever allocated.
  std::size_t held_bytes() const;
  std::uint64_t allocations() const { return allocations_; }

 private:
  friend class ScratchFrame;
  struct Free {
    std::size_t alignment;
    void operator()(std::byte* block) const { ::operator delete (block, std::align_val_t{alignment}); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> data;
    std::size_t bytes;
  };
  // Where the stack ends: `used` bytes into block `block`, `live` bytes in all.
  struct Mark {
    std::size_t block = 0;
    std::size_t used = 0;
    std::size_t live = 0;
  };

  void* take(std::size_t bytes);
  void add_block(std::size_t bytes);
  void open() { ++frames_; }
  void close(const Mark& mark);
  void settle();

  std::vector<Block> blocks_;
  Mark top_;
  std::size_t peak_ = 0;   // the largest `live` since the last frame closed
  std::size_t first_ = 0;  // what the first block should hold
  std::uint64_t allocations_ = 0;
  int frames_ = 0;
};

// Released when the thread ends.
Scratch& scratch_for_this_thread();

// Blocks allocated by all threads since the process began: unchanged by a call means that the call allocated none.
std::uint64_t scratch_allocations();

// Everything taken through a frame is valid until it closes. Frames of a thread close in reverse order, and only the
// thread that opened one takes from it; what was taken may be shared with others.
class ScratchFrame {
 public:
  ScratchFrame() : ScratchFrame(scratch_for_this_thread()) {}
  explicit ScratchFrame(Scratch& scratch) : scratch_(scratch), mark_(scratch.top_) { scratch.open(); }
  ScratchFrame(const ScratchFrame&) = delete;
  ScratchFrame& operator=(const ScratchFrame&) = delete;
  ~ScratchFrame() { scratch_.close(mark_); }

  // 64-byte aligned, contents unspecified, never null. Throws std::bad_alloc when it cannot be had.
  template <class T>
  T* take(Index count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= Scratch::kAlignment);
    constexpr auto kMost = static_cast<Index>(std::numeric_limits<std::ptrdiff_t>::max() / 2 / sizeof(T));
    if (count < 0 || count > kMost) throw std::bad_array_new_length();
    return static_cast<T*>(scratch_.take(static_cast<std::size_t>(count) * sizeof(T)));
  }

 private:
  Scratch& scratch_;
  const Scratch::Mark mark_;
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_SCRATCH_H_
