// SPDX-License-Identifier: Apache-2.0
// Masks, lengths and positions as a caller gave them, shared by headwise.attention and the layers.
#ifndef HEADWISE_PYTHON_BINDINGS_VISIBILITY_ARGUMENTS_H_
#define HEADWISE_PYTHON_BINDINGS_VISIBILITY_ARGUMENTS_H_

#include <string_view>
#include <vector>

#include "headwise/kernels/attention.h"
#include "python/bindings/array_argument.h"

namespace headwise::python {

// Whether the call takes causal="upper_left" and "lower_right", for error texts.
enum class AlignmentNames : bool { kNone, kTaken };

// Owns what a Visibility borrows.
class VisibilityArguments {
 public:
  VisibilityArguments() = default;
  VisibilityArguments(std::string_view who, AlignmentNames names) : who_(who), names_(names) {}

  void take_mask(nb::handle mask, const AttentionShape& shape, ArrayLibrary library = ArrayLibrary::kNumpy);
  // From here on the mask is a copy: the caller may change theirs.
  void own_mask();
  void take_causal(nb::handle causal);
  void take_window(nb::handle window);
  // After take_causal: an alignment by name and an offset exclude each other.
  void take_query_offset(nb::handle query_offset, const AttentionShape& shape);
  void take_kv_lengths(nb::handle kv_lengths);
  // The last query row stands at the last key, unless an alignment or an offset was given.
  void default_to_lower_right();

  // Throws ArgumentError when `what` needs positions that nobody stated.
  void require_positions(std::string_view what, const AttentionShape& shape) const;

  const ArrayArgument& mask() const { return mask_; }
  // Borrows from this object.
  Visibility visibility() const;

 private:
  std::string who_;
  AlignmentNames names_ = AlignmentNames::kTaken;
  ArrayArgument mask_;
  bool causal_ = false;
  Alignment alignment_ = Alignment::kSelf;
  Index window_left_ = -1, window_right_ = -1;
  std::vector<Index> query_offset_, kv_lengths_;
};

// A mask or bias: (seq_q, seq_kv), or (batch, heads, seq_q, seq_kv) with any axis 1. Throws ShapeError.
void check_score_shape(std::string_view who, const ArrayArgument& array, const AttentionShape& shape);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_VISIBILITY_ARGUMENTS_H_
