// SPDX-License-Identifier: Apache-2.0
// An owning, 64-byte aligned, dense block that hands out views.
#ifndef HEADWISE_TENSOR_TENSOR_H_
#define HEADWISE_TENSOR_TENSOR_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

template <class T, int Rank>
class Tensor {
 public:
  Tensor() = default;
  // All elements start at zero. Throws std::bad_alloc when the block cannot be had.
  explicit Tensor(const Shape<Rank>& shape) : shape_(shape), data_(allocate(count_of(shape))) { fill(T{}); }
  explicit Tensor(TensorView<const T, Rank> source) : Tensor(source.shape()) { copy_elements(source, view()); }
  // A tensor that holds nothing stays so.
  Tensor(const Tensor& other) {
    if (other) *this = Tensor(other.view());
  }
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  ~Tensor() = default;

  TensorView<T, Rank> view() { return {data_.get(), shape_}; }
  TensorView<const T, Rank> view() const { return {data_.get(), shape_}; }
  TensorView<const T, Rank> cview() const { return view(); }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  const Shape<Rank>& shape() const { return shape_; }
  Index size(int axis) const { return shape_[axis]; }
  Index elements() const { return count_of(shape_); }
  explicit operator bool() const { return data_ != nullptr; }

  void fill(T value) { std::fill_n(data_.get(), elements(), value); }

  template <class... Indices>
  T& operator()(Indices... indices) {
    return view()(indices...);
  }
  template <class... Indices>
  const T& operator()(Indices... indices) const {
    return view()(indices...);
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* block) const { ::operator delete[](block, kAlignment); }
  };

  static Index count_of(const Shape<Rank>& shape) {
    Index count = 1;
    for (Index extent : shape) count *= extent;
    return count;
  }
  static T* allocate(Index count) {
    // One element more than asked, so that an empty tensor still has an address.
    const std::size_t bytes = sizeof(T) * (static_cast<std::size_t>(count) + 1);
    return static_cast<T*>(::operator new[](bytes, kAlignment));
  }

  Shape<Rank> shape_{};
  std::unique_ptr<T[], Free> data_;
};

// Copies element by element between views of the same shape, converting the type where they differ.
template <class From, class To, int Rank>
void copy_elements(TensorView<From, Rank> from, TensorView<To, Rank> to) {
  for (Index i = 0; i < from.size(0); ++i) {
    if constexpr (Rank == 1) {
      to(i) = static_cast<To>(from(i));
    } else {
      copy_elements(from.select(0, i), to.select(0, i));
    }
  }
}

}  // namespace headwise

#endif  // HEADWISE_TENSOR_TENSOR_H_
