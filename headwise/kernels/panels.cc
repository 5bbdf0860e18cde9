// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/panels.h"

#include <algorithm>
#include <bit>
#include <cstdint>

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

// One panel whose columns are strided and whose rows are dense: a transpose, 8 columns at a time.
template <class T, class A>
Flag<A> transpose_panel(const Matrix<T>& source, Index first, Index count, Index width, A* panel) {
  Flag<A> bad = 0;
  constexpr Index kDepthRun = 16;
  for (Index k0 = 0; k0 < source.rows; k0 += kDepthRun) {
    const Index k1 = std::min(k0 + kDepthRun, source.rows);
    for (Index c = 0; c < count; ++c) {
      const T* column = source.data + (first + c) * source.column_stride;
      for (Index k = k0; k < k1; ++k) {
        const A value = widen<A>(column[k * source.row_stride]);
        bad |= not_finite(value);
        panel[k * width + c] = value;
      }
    }
    for (Index k = k0; k < k1; ++k) std::fill(panel + k * width + count, panel + (k + 1) * width, A{0});
  }
  return bad;
}

// One panel whose columns are dense: rows are copied.
template <class T, class A>
Flag<A> copy_panel(const Matrix<T>& source, Index first, Index count, Index width, A* panel) {
  Flag<A> bad = 0;
  for (Index k = 0; k < source.rows; ++k) {
    const T* row = source.data + k * source.row_stride + first;
    A* out = panel + k * width;
    for (Index c = 0; c < count; ++c) {
      const A value = widen<A>(row[c]);
      bad |= not_finite(value);
      out[c] = value;
    }
    std::fill(out + count, out + width, A{0});
  }
  return bad;
}

}  // namespace

template <class T, class A>
bool pack_panels(const Matrix<T>& source, const PanelLayout& layout, Index depth, A* panels) {
  Flag<A> bad = 0;
  for (Index p = 0; p < layout.panels(); ++p) {
    const Index first = p * layout.width, width = layout.width_of(p);
    const Index count = std::min(width, source.columns - first);
    A* panel = panels + layout.offset(p, depth);
    bad |= source.column_stride == 1 ? copy_panel(source, first, count, width, panel)
                                       : transpose_panel(source, first, count, width, panel);
    std::fill(panel + source.rows * width, panel + depth * width, A{0});
  }
  return bad == 0;
}

template <class T, class A>
bool pack_slivers(const Matrix<T>& source, Index tile_rows, A factor, A* slivers) {
  Flag<A> bad = 0;
  for (Index first = 0; first < source.rows; first += tile_rows) {
    A* sliver = slivers + first * source.columns;
    const Index count = std::min(tile_rows, source.rows - first);
    for (Index row = 0; row < count; ++row) {
      const T* from = source.data + (first + row) * source.row_stride;
      for (Index k = 0; k < source.columns; ++k) {
        const A value = widen<A>(from[k * source.column_stride]) * factor;
        bad |= not_finite(value);
        sliver[k * tile_rows + row] = value;
      }
    }
    for (Index row = count; row < tile_rows; ++row) {
      for (Index k = 0; k < source.columns; ++k) sliver[k * tile_rows + row] = 0;
    }
  }
  return bad == 0;
}

#define HEADWISE_PANELS(T, A)                                                       \
  template bool pack_panels(const Matrix<T>&, const PanelLayout&, Index, A*);       \
  template bool pack_slivers(const Matrix<T>&, Index, A, A*);
HEADWISE_PANELS(float, float)
HEADWISE_PANELS(double, double)
HEADWISE_PANELS(float16, float)
HEADWISE_PANELS(bfloat16, float)
#undef HEADWISE_PANELS

}  // namespace headwise
