// SPDX-License-Identifier: Apache-2.0
// Tensors with a page before and a page after that nobody may touch, and that may be closed for writing.
#ifndef HEADWISE_TESTS_SUPPORT_GUARDED_MEMORY_H_
#define HEADWISE_TESTS_SUPPORT_GUARDED_MEMORY_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <utility>

#include "headwise/tensor/tensor_view.h"

namespace headwise::testing {

// Which of the two forbidden pages the tensor touches.
enum class Placement { kFirstByteBehindGuard, kLastByteBeforeGuard };

class GuardedBlock {
 public:
  GuardedBlock(std::size_t bytes, Placement placement) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inner_bytes_ = (bytes + page - 1) / page * page;
    all_bytes_ = inner_bytes_ + 2 * page;
    void* mapped = mmap(nullptr, all_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<std::byte*>(mapped);
    inner_ = all_ + page;
    allow(PROT_READ | PROT_WRITE);
    data_ = placement == Placement::kFirstByteBehindGuard ? inner_ : inner_ + inner_bytes_ - bytes;
  }
  GuardedBlock(GuardedBlock&& other) noexcept { *this = std::move(other); }
  GuardedBlock& operator=(GuardedBlock&& other) noexcept {
    std::swap(all_, other.all_);
    std::swap(inner_, other.inner_);
    std::swap(data_, other.data_);
    std::swap(all_bytes_, other.all_bytes_);
    std::swap(inner_bytes_, other.inner_bytes_);
    return *this;
  }
  ~GuardedBlock() {
    if (all_ != nullptr) munmap(all_, all_bytes_);
  }

  std::byte* data() const { return data_; }
  void make_read_only() { allow(PROT_READ); }

 private:
  void allow(int protection) {
    if (inner_bytes_ > 0 && mprotect(inner_, inner_bytes_, protection) != 0) throw std::bad_alloc();
  }

  std::byte* all_ = nullptr;
  std::byte* inner_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t all_bytes_ = 0, inner_bytes_ = 0;
};

// Elements start at zero.
template <class T, int Rank>
class GuardedTensor {
 public:
  GuardedTensor(const Shape<Rank>& shape, Placement placement)
      : block_(bytes_of(shape), placement), view_(reinterpret_cast<T*>(block_.data()), shape) {}
  // A copy that nobody can write to.
  GuardedTensor(const TensorView<const T, Rank>& source, Placement placement)
      : GuardedTensor(source.shape(), placement) {
    copy(source, view_);
    block_.make_read_only();
  }

  const TensorView<T, Rank>& view() const { return view_; }
  TensorView<const T, Rank> cview() const { return view_; }

 private:
  static std::size_t bytes_of(const Shape<Rank>& shape) {
    std::size_t bytes = sizeof(T);
    for (Index extent : shape) bytes *= static_cast<std::size_t>(extent);
    return bytes;
  }
  template <int AnyRank>
  static void copy(const TensorView<const T, AnyRank>& from, const TensorView<T, AnyRank>& to) {
    for (Index i = 0; i < from.size(0); ++i) {
      if constexpr (AnyRank == 1) {
        to(i) = from(i);
      } else {
        copy(from.select(0, i), to.select(0, i));
      }
    }
  }

  GuardedBlock block_;
  TensorView<T, Rank> view_;
};

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_GUARDED_MEMORY_H_
