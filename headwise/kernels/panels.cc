// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/panels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "headwise/kernels/pack_floats.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

// 1 for inf and NaN, 0 otherwise, in integers: a loop that ors these stays free of branches and of a chain of adds.
inline std::uint32_t not_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7F800000U) == 0x7F800000U ? 1U : 0U;
}
inline std::uint64_t not_finite(double value) {
  constexpr std::uint64_t kExponent = 0x7FF0000000000000U;
  return (std::bit_cast<std::uint64_t>(value) & kExponent) == kExponent ? 1U : 0U;
}
template <class A>
using Flag = decltype(not_finite(A{}));

// The same in vectors, where this process runs on any.
template <class T, class A>
bool pack_in_vectors(FloatPackingFunction FloatPackingFunctions::*kind, const T* from, Index stride, Index count,
                     Index depth, A factor, A* to, Index width, Flag<A>& bad) {
  if constexpr (std::is_same_v<T, float>) {
    const Isa isa = chosen_isa();
    if (isa == Isa::kCanonical) return false;
    bad = (float_packing_for(isa).*kind)({from, stride, count, depth, factor, to, width}) ? 0 : 1;
    return true;
  } else {
    return false;
  }
}

// to[k * width + c] = from[c * column_stride + k * stride] * factor for c < count, k < depth.
template <class T, class A>
Flag<A> transpose(const T* from, Index column_stride, Index stride, Index count, Index depth, A factor, A* to,
                  Index width) {
  Flag<A> bad = 0;
  if (stride == 1 && pack_in_vectors<T, A>(&FloatPackingFunctions::transpose, from, column_stride, count, depth, factor,
                                           to, width, bad)) {
    return bad;
  }
  for (Index c = 0; c < count; ++c) {
    const T* column = from + c * column_stride;
    for (Index k = 0; k < depth; ++k) {
      const A value = widen<A>(column[k * stride]) * factor;
      bad |= not_finite(value);
      to[k * width + c] = value;
    }
  }
  return bad;
}

// to[k * width + c] = from[k * stride + c] * factor for c < count, k < depth: what lies side by side stays so.
template <class T, class A>
Flag<A> copy(const T* from, Index stride, Index count, Index depth, A factor, A* to, Index width) {
  Flag<A> bad = 0;
  if (pack_in_vectors<T, A>(&FloatPackingFunctions::copy, from, stride, count, depth, factor, to, width, bad)) {
    return bad;
  }
  for (Index k = 0; k < depth; ++k) {
    const T* row = from + k * stride;
    A* out = to + k * width;
    for (Index c = 0; c < count; ++c) {
      const A value = widen<A>(row[c]) * factor;
      bad |= not_finite(value);
      out[c] = value;
    }
  }
  return bad;
}

// Columns [count, width) of a panel.
template <class A>
void clear_columns(A* panel, Index depth, Index count, Index width) {
  for (Index k = 0; count < width && k < depth; ++k)
    std::fill(panel + k * width + count, panel + (k + 1) * width, A{0});
}

}  // namespace

template <class T, class A>
bool pack_panels(const Matrix<T>& source, const PanelLayout& layout, Index depth, A* panels) {
  Flag<A> bad = 0;
  for (Index p = 0; p < layout.panels(); ++p) {
    const Index first = p * layout.width, width = layout.width_of(p);
    const Index count = std::min(width, source.columns - first);
    A* panel = panels + layout.offset(p, depth);
    bad |= source.column_stride == 1
               ? copy(source.data + first, source.row_stride, count, source.rows, A{1}, panel, width)
               : transpose(source.data + first * source.column_stride, source.column_stride, source.row_stride, count,
                           source.rows, A{1}, panel, width);
    clear_columns(panel, source.rows, count, width);
  }
  return bad == 0;
}

template <class T, class A>
bool pack_slivers(const Matrix<T>& source, Index tile_rows, A factor, A* slivers, Index first_row) {
  // Where rows lie side by side, a few k at a time for all slivers: what is read next lies next to it.
  const Index together = source.row_stride == 1 ? 16 : std::max<Index>(source.columns, 1);
  Flag<A> bad = 0;
  for (Index first = 0; first < source.columns; first += together) {
    const Index depth = std::min(together, source.columns - first);
    for (Index row = 0; row < source.rows;) {
      const Index at = first_row + row, within = at % tile_rows;
      const Index count = std::min(tile_rows - within, source.rows - row);
      A* to = slivers + (at - within) * source.columns + first * tile_rows + within;
      const T* from = source.data + row * source.row_stride + first * source.column_stride;
      bad |= source.row_stride == 1
                 ? copy(from, source.column_stride, count, depth, factor, to, tile_rows)
                 : transpose(from, source.row_stride, source.column_stride, count, depth, factor, to, tile_rows);
      row += count;
      if (row == source.rows) clear_columns(to - within, depth, within + count, tile_rows);
    }
  }
  return bad == 0;
}

#define HEADWISE_PANELS(T, A)                                                 \
  template bool pack_panels(const Matrix<T>&, const PanelLayout&, Index, A*); \
  template bool pack_slivers(const Matrix<T>&, Index, A, A*, Index);
HEADWISE_PANELS(float, float)
HEADWISE_PANELS(double, double)
HEADWISE_PANELS(float16, float)
HEADWISE_PANELS(bfloat16, float)
#undef HEADWISE_PANELS

}  // namespace headwise
