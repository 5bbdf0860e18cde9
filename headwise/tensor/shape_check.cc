// SPDX-License-Identifier: Apache-2.0
#include "headwise/tensor/shape_check.h"

#include <algorithm>
#include <string>

#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

std::string axis_text(const Axis& axis) {
  std::string text(axis.name);
  if (axis.length != Axis::kAny) text += "=" + std::to_string(axis.length);
  return text;
}

bool fits(std::span<const Index> got, std::initializer_list<Axis> expected, bool one_is_fine) {
  if (got.size() != expected.size()) return false;
  std::size_t at = 0;
  for (const Axis& axis : expected) {
    const Index length = got[at++];
    if (axis.length == Axis::kAny || axis.length == length) continue;
    if (!(one_is_fine && length == 1)) return false;
  }
  return true;
}

std::string begin_message(std::string_view who, std::string_view argument) {
  return std::string(who) + ": " + std::string(argument) + " must be ";
}

}  // namespace

std::string format_shape(std::span<const Index> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string format_axes(std::span<const Axis> axes) {
  std::string text = "(";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) text += ", ";
    text += axis_text(axes[i]);
  }
  return text + (axes.size() == 1 ? ",)" : ")");
}

void check_shape(std::string_view who, std::string_view argument, std::span<const Index> got,
                 std::initializer_list<Axis> expected) {
  if (fits(got, expected, false)) return;
  throw ShapeError(begin_message(who, argument) + format_axes({expected.begin(), expected.size()}) + ", got " +
                   format_shape(got));
}

void check_broadcast_shape(std::string_view who, std::string_view argument, std::span<const Index> got,
                           std::initializer_list<Axis> expected) {
  if (fits(got, expected, true)) return;
  throw ShapeError(begin_message(who, argument) + format_axes({expected.begin(), expected.size()}) +
                   " with any axis 1, got " + format_shape(got));
}

void check_divisible(std::string_view who, std::string_view whole_name, Index whole, std::string_view parts_name,
                     Index parts) {
  if (parts > 0 && whole % parts == 0) return;
  Index below = std::min(parts, whole);
  while (below > 1 && whole % below != 0) --below;
  Index above = std::max<Index>(parts, 1);
  while (above < whole && whole % above != 0) ++above;
  std::string nearest;
  if (below >= 1 && below < parts) nearest = std::to_string(below);
  if (above <= whole && above != parts) nearest += (nearest.empty() ? "" : ", ") + std::to_string(above);
  throw ShapeError(std::string(who) + ": " + std::string(whole_name) + "=" + std::to_string(whole) +
                   " is not divisible by " + std::string(parts_name) + "=" + std::to_string(parts) +
                   "; nearest valid " + std::string(parts_name) + ": " + nearest);
}

}  // namespace headwise
