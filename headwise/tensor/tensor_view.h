// SPDX-License-Identifier: Apache-2.0
// A strided view of a block of numbers. It owns nothing; split, transpose, slice and select copy nothing.
#ifndef HEADWISE_TENSOR_TENSOR_VIEW_H_
#define HEADWISE_TENSOR_TENSOR_VIEW_H_

#include <array>
#include <cassert>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace headwise {

using Index = std::int64_t;

template <int Rank>
using Shape = std::array<Index, Rank>;

// Strides of a dense block in C order, in elements.
template <int Rank>
constexpr Shape<Rank> dense_strides(const Shape<Rank>& shape) {
  Shape<Rank> strides{};
  Index step = 1;
  for (int axis = Rank - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

// T may be const. Strides are in elements and may be zero (a broadcast axis) or negative.
template <class T, int Rank>
class TensorView {
 public:
  using Element = T;

  TensorView() = default;
  TensorView(T* data, const Shape<Rank>& shape) : TensorView(data, shape, dense_strides<Rank>(shape)) {}
  TensorView(T* data, const Shape<Rank>& shape, const Shape<Rank>& strides)
      : data_(data), shape_(shape), strides_(strides) {}

  // A view of mutable elements is also a view of constant ones.
  operator TensorView<const T, Rank>() const requires(!std::is_const_v<T>) { return {data_, shape_, strides_}; }

  T* data() const { return data_; }
  const Shape<Rank>& shape() const { return shape_; }
  const Shape<Rank>& strides() const { return strides_; }
  Index size(int axis) const { return shape_[axis]; }
  Index stride(int axis) const { return strides_[axis]; }

  // False for the default view, which stands for "not given".
  explicit operator bool() const { return data_ != nullptr; }

  Index elements() const {
    Index count = 1;
    for (Index extent : shape_) count *= extent;
    return count;
  }

  bool is_dense() const {
    Index step = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      if (shape_[axis] != 1 && strides_[axis] != step) return false;
      step *= shape_[axis];
    }
    return true;
  }

  template <class... Indices>
  requires(sizeof...(Indices) == Rank) T& operator()(Indices... indices) const {
    const Shape<Rank> at{static_cast<Index>(indices)...};
    Index offset = 0;
    for (int axis = 0; axis < Rank; ++axis) {
      assert(at[axis] >= 0 && at[axis] < shape_[axis]);
      offset += at[axis] * strides_[axis];
    }
    return data_[offset];
  }

  // (.., n, ..) -> (.., parts, n / parts, ..): the head axis of (batch, seq, d_out) is split(2, heads).
  TensorView<T, Rank + 1> split(int axis, Index parts) const {
    assert(parts > 0 && shape_[axis] % parts == 0);
    Shape<Rank + 1> shape{};
    Shape<Rank + 1> strides{};
    for (int from = 0, to = 0; from < Rank; ++from, ++to) {
      shape[to] = shape_[from];
      strides[to] = strides_[from];
      if (from == axis) {
        shape[to] = parts;
        strides[to] = strides_[from] * (shape_[from] / parts);
        ++to;
        shape[to] = shape_[from] / parts;
        strides[to] = strides_[from];
      }
    }
    return {data_, shape, strides};
  }

  // Swaps two axes.
  TensorView transpose(int a, int b) const {
    TensorView result = *this;
    std::swap(result.shape_[a], result.shape_[b]);
    std::swap(result.strides_[a], result.strides_[b]);
    return result;
  }

  // Keeps indices [begin, end) of one axis.
  TensorView slice(int axis, Index begin, Index end) const {
    assert(0 <= begin && begin <= end && end <= shape_[axis]);
    TensorView result = *this;
    if (data_ != nullptr) result.data_ = data_ + begin * strides_[axis];
    result.shape_[axis] = end - begin;
    return result;
  }

  // Fixes one index and drops its axis.
  TensorView<T, Rank - 1> select(int axis, Index index) const requires(Rank > 1) {
    assert(0 <= index && index < shape_[axis]);
    Shape<Rank - 1> shape{};
    Shape<Rank - 1> strides{};
    for (int from = 0, to = 0; from < Rank; ++from) {
      if (from == axis) continue;
      shape[to] = shape_[from];
      strides[to] = strides_[from];
      ++to;
    }
    return {data_ + index * strides_[axis], shape, strides};
  }

 private:
  T* data_ = nullptr;
  Shape<Rank> shape_{};
  Shape<Rank> strides_{};
};

}  // namespace headwise

#endif  // HEADWISE_TENSOR_TENSOR_VIEW_H_
