// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/panels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

// Four floats; every compiler that builds the kernels has this, with or without vector instructions.
using Float4 = float __attribute__((vector_size(16)));
using Int4 = std::int32_t __attribute__((vector_size(16)));

inline Float4 load4(const float* from) {
  Float4 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void store4(float* to, Float4 value) { std::memcpy(to, &value, sizeof value); }

// to[k * width + c] = from[c * stride + k] * factor for 4 columns and 4 k; returns lanes of -1 where not finite.
inline Int4 transpose4(const float* from, Index stride, float factor, float* to, Index width) {
  constexpr Int4 kExponent = {0x7F800000, 0x7F800000, 0x7F800000, 0x7F800000};
  const Float4 r0 = load4(from) * factor, r1 = load4(from + stride) * factor;
  const Float4 r2 = load4(from + 2 * stride) * factor, r3 = load4(from + 3 * stride) * factor;
  const auto bad = [&](Float4 row) { return (std::bit_cast<Int4>(row) & kExponent) == kExponent; };
  const Int4 flags = bad(r0) | bad(r1) | bad(r2) | bad(r3);
  const Float4 low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),
               high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const Float4 low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5),
               high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  store4(to, __builtin_shufflevector(low01, low23, 0, 1, 4, 5));
  store4(to + width, __builtin_shufflevector(low01, low23, 2, 3, 6, 7));
  store4(to + 2 * width, __builtin_shufflevector(high01, high23, 0, 1, 4, 5));
  store4(to + 3 * width, __builtin_shufflevector(high01, high23, 2, 3, 6, 7));
  return flags;
}

// to[k * width + c] = from[c * column_stride + k * stride] * factor for c < count, k < depth.
template <class T, class A>
Flag<A> transpose(const T* from, Index column_stride, Index stride, Index count, Index depth, A factor, A* to,
                  Index width) {
  Flag<A> bad = 0;
  Index quads = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (stride == 1) {
      quads = count / 4 * 4;
      Int4 flags = {0, 0, 0, 0};
      const Index whole = depth / 4 * 4;
      for (Index k = 0; k < whole; k += 4) {
        for (Index c = 0; c < quads; c += 4) {
          flags |= transpose4(from + c * column_stride + k, column_stride, factor, to + k * width + c, width);
        }
      }
      if ((flags[0] | flags[1] | flags[2] | flags[3]) != 0) bad = 1;
      for (Index k = whole; k < depth; ++k) {
        for (Index c = 0; c < quads; ++c) {
          const float value = from[c * column_stride + k] * factor;
          bad |= not_finite(value);
          to[k * width + c] = value;
        }
      }
    }
  }
  for (Index c = quads; c < count; ++c) {
    const T* column = from + c * column_stride;
    for (Index k = 0; k < depth; ++k) {
      const A value = widen<A>(column[k * stride]) * factor;
      bad |= not_finite(value);
      to[k * width + c] = value;
    }
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
  }
  return bad;
}

// One sliver of rows that lie side by side: element (row, k) at from[k * stride + row].
template <class T, class A>
Flag<A> copy_sliver(const T* from, Index stride, Index count, Index depth, A factor, A* to, Index width) {
  Flag<A> bad = 0;
  for (Index k = 0; k < depth; ++k) {
    const T* column = from + k * stride;
    A* out = to + k * width;
    for (Index r = 0; r < count; ++r) {
      const A value = widen<A>(column[r]) * factor;
      bad |= not_finite(value);
      out[r] = value;
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
    bad |= source.column_stride == 1 ? copy_panel(source, first, count, width, panel)
                                     : transpose(source.data + first * source.column_stride, source.column_stride,
                                                 source.row_stride, count, source.rows, A{1}, panel, width);
    clear_columns(panel, source.rows, count, width);
  }
  return bad == 0;
}

template <class T, class A>
bool pack_slivers(const Matrix<T>& source, Index tile_rows, A factor, A* slivers, Index first_row) {
  Flag<A> bad = 0;
  for (Index row = 0; row < source.rows;) {
    const Index at = first_row + row, within = at % tile_rows;
    const Index count = std::min(tile_rows - within, source.rows - row);
    A* sliver = slivers + (at - within) * source.columns;
    const T* from = source.data + row * source.row_stride;
    bad |= source.row_stride == 1
               ? copy_sliver(from, source.column_stride, count, source.columns, factor, sliver + within, tile_rows)
               : transpose(from, source.row_stride, source.column_stride, count, source.columns, factor,
                           sliver + within, tile_rows);
    row += count;
    if (row == source.rows) clear_columns(sliver, source.columns, within + count, tile_rows);
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
