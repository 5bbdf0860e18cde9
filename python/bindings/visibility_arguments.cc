// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/visibility_arguments.h"

#include <algorithm>
#include <limits>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {
namespace {

// Positions stay exact integers, and sums of two of them far from overflow.
constexpr Index kFarthest = Index{1} << 53;

}  // namespace

void check_score_shape(std::string_view who, const ArrayArgument& array, const AttentionShape& shape) {
  if (!array.given()) return;
  const Axis rows{"seq_q", shape.seq_q}, keys{"seq_kv", shape.seq_kv};
  if (array.rank() == 2) {
    check_shape(who, array.name(), array.shape(), {rows, keys});
  } else {
    check_broadcast_shape(who, array.name(), array.shape(),
                          {{"batch", shape.batch}, {"heads", shape.heads}, rows, keys});
  }
}

void VisibilityArguments::take_mask(nb::handle mask, const AttentionShape& shape, ArrayLibrary library) {
  mask_ = ArrayArgument(who_, "mask", mask, library);
  if (!mask_.given()) return;
  if (mask_.dtype() != DType::kBool) {
    throw DTypeError(who_ + ": mask must be bool (True = attend), got " + dtype_text(mask));
  }
  check_score_shape(who_, mask_, shape);
}

void VisibilityArguments::own_mask() {
  if (mask_.given()) mask_ = mask_.copy();
}

void VisibilityArguments::take_causal(nb::handle causal) {
  if (is_true_or_false(causal)) {
    causal_ = PyObject_IsTrue(causal.ptr()) != 0;
    return;
  }
  constexpr std::string_view expected = ": causal must be False, True, \"upper_left\" or \"lower_right\", got ";
  if (!nb::isinstance<nb::str>(causal)) throw DTypeError(who_ + std::string(expected) + type_text(causal));
  const std::string name = nb::cast<std::string>(causal);
  if (name != "upper_left" && name != "lower_right") {
    throw ArgumentError(who_ + std::string(expected) + "\"" + name + "\"");
  }
  causal_ = true;
  alignment_ = name == "upper_left" ? Alignment::kUpperLeft : Alignment::kLowerRight;
}

void VisibilityArguments::take_window(nb::handle window) {
  if (window.is_none()) return;
  const bool sequence = nb::isinstance<nb::tuple>(window) || nb::isinstance<nb::list>(window);
  if (!sequence) throw DTypeError(who_ + ": window must be a tuple (left, right), got " + type_text(window));
  if (nb::len(window) != 2) {
    throw ArgumentError(who_ + ": window must be a tuple (left, right), got " + std::to_string(nb::len(window)) +
                        " entries");
  }
  // Farther than any position there is means the same as unlimited.
  const auto entry = [&](int at) {
    const Index value = integer_argument({who_, "window"}, nb::object(window[at]), std::numeric_limits<Index>::min(),
                                         std::numeric_limits<Index>::max());
    return std::min(value, 4 * kFarthest);
  };
  window_left_ = entry(0);
  window_right_ = entry(1);
}

void VisibilityArguments::take_query_offset(nb::handle query_offset, const AttentionShape& shape) {
  if (query_offset.is_none()) return;
  if (alignment_ != Alignment::kSelf) {
    throw ArgumentError(who_ + ": causal=\"" + (alignment_ == Alignment::kUpperLeft ? "upper_left" : "lower_right") +
                        "\" and query_offset both say where the queries stand; give one of them");
  }
  alignment_ = Alignment::kOffset;
  const bool one_for_all =
      !is_numpy_array(query_offset) && PyList_Check(query_offset.ptr()) == 0 && PyTuple_Check(query_offset.ptr()) == 0;
  if (one_for_all) {
    query_offset_ = {integer_argument({who_, "query_offset"}, query_offset, -kFarthest, kFarthest)};
    return;
  }
  query_offset_ = integers_argument({who_, "query_offset"}, query_offset);
  const Index got[] = {static_cast<Index>(query_offset_.size())};
  check_shape(who_, "query_offset", got, {{"batch", shape.batch}});
  for (Index offset : query_offset_) {
    if (-kFarthest <= offset && offset <= kFarthest) continue;
    throw ArgumentError(who_ + ": query_offset must be in " + std::to_string(-kFarthest) + ".." +
                        std::to_string(kFarthest) + ", got " + std::to_string(offset));
  }
}

void VisibilityArguments::take_kv_lengths(nb::handle kv_lengths) {
  if (kv_lengths.is_none()) return;
  kv_lengths_ = integers_argument({who_, "kv_lengths"}, kv_lengths);
  kv_lengths_.reserve(1);  // an empty list has an address too: it was given
}

void VisibilityArguments::default_to_lower_right() {
  if (alignment_ == Alignment::kSelf) alignment_ = Alignment::kLowerRight;
}

void VisibilityArguments::require_positions(std::string_view what, const AttentionShape& shape) const {
  if (alignment_ != Alignment::kSelf || shape.seq_q == shape.seq_kv) return;
  const bool named = names_ == AlignmentNames::kTaken;
  throw ArgumentError(who_ + ": " + std::string(what) + " needs seq_q == seq_kv or " +
                      (named ? "a stated alignment" : "query_offset") + ", got seq_q=" + std::to_string(shape.seq_q) +
                      " and seq_kv=" + std::to_string(shape.seq_kv) +
                      (named ? "; give query_offset, causal=\"upper_left\" or causal=\"lower_right\"" : ""));
}

Visibility VisibilityArguments::visibility() const {
  Visibility rules;
  rules.causal = causal_;
  rules.alignment = alignment_;
  rules.query_offset = query_offset_;
  rules.window_left = window_left_;
  rules.window_right = window_right_;
  rules.kv_lengths = kv_lengths_;
  rules.mask = mask_.view<const bool, 4>();
  return rules;
}

}  // namespace headwise::python
