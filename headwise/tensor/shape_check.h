// SPDX-License-Identifier: Apache-2.0
// The only writer of shape errors: "attention: x must be (batch, seq, d_in=768), got (2, 5, 512)".
#ifndef HEADWISE_TENSOR_SHAPE_CHECK_H_
#define HEADWISE_TENSOR_SHAPE_CHECK_H_

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// One expected axis: its name and, where it is known, its length.
struct Axis {
  static constexpr Index kAny = -1;
  std::string_view name;
  Index length = kAny;
};

// "(2, 5, 512)"; a single axis is written "(5,)" as numpy does.
std::string format_shape(std::span<const Index> shape);

// "(batch, seq, d_in=768)".
std::string format_axes(std::span<const Axis> axes);

// Throws ShapeError "<who>: <argument> must be <axes>, got <shape>" unless rank and every known length agree.
void check_shape(std::string_view who, std::string_view argument, std::span<const Index> got,
                 std::initializer_list<Axis> expected);

// The same for an argument whose axes may also be 1 (mask, bias): each axis is 1 or its length.
void check_broadcast_shape(std::string_view who, std::string_view argument, std::span<const Index> got,
                           std::initializer_list<Axis> expected);

template <class T, int Rank>
void check_shape(std::string_view who, std::string_view argument, const TensorView<T, Rank>& got,
                 std::initializer_list<Axis> expected) {
  check_shape(who, argument, std::span<const Index>(got.shape()), expected);
}

// Throws ShapeError unless `whole` is a multiple of `parts` (both positive). The text names the nearest counts that
// do divide `whole`: "MultiHeadAttention: d_out=10 is not divisible by num_heads=3; nearest valid num_heads: 2, 5".
void check_divisible(std::string_view who, std::string_view whole_name, Index whole, std::string_view parts_name,
                     Index parts);

}  // namespace headwise

#endif  // HEADWISE_TENSOR_SHAPE_CHECK_H_
