// SPDX-License-Identifier: Apache-2.0
// The packed formats that projection, attention and cache share.
//
// A panel holds `width` neighbouring columns: element (k, column) at panel[k * width + column]. Columns beyond the
// matrix are 0. The last panel is half as wide where that is enough ("narrow"). A sliver holds `rows` neighbouring rows
// of a left operand: element (row, k) at sliver[k * rows + row].
#ifndef HEADWISE_KERNELS_PANELS_H_
#define HEADWISE_KERNELS_PANELS_H_

#include "headwise/kernels/blocks.h"

namespace headwise {

// What an instruction set's tiles look like for one element type.
struct TileShape {
  Index rows = 0;   // rows of the register tile and of a sliver
  Index width = 0;  // columns of a full panel
};

struct PanelLayout {
  Index columns = 0, width = 0;

  Index panels() const { return ceil_div(columns, width); }
  bool narrow(Index panel) const { return columns - panel * width <= width / 2; }
  Index width_of(Index panel) const { return narrow(panel) ? width / 2 : width; }
  // All columns with their padding.
  Index padded() const { return panels() == 0 ? 0 : (panels() - 1) * width + width_of(panels() - 1); }
  // Where a panel begins, for panels of `depth` rows.
  Index offset(Index panel, Index depth) const { return panel * width * depth; }
};

// A strided matrix of a storage type: element (row, column) at data[row * row_stride + column * column_stride].
template <class T>
struct Matrix {
  const T* data = nullptr;
  Index rows = 0, columns = 0, row_stride = 0, column_stride = 0;
};

// Packs a matrix (k, column) into panels of depth `depth`; rows from the matrix's own count on are left as they are.
// The layout may have more columns than the matrix, up to its last panel; they are 0. T is widened exactly. Returns
// true when every element is finite.
template <class T, class A>
bool pack_panels(const Matrix<T>& source, const PanelLayout& layout, Index depth, A* panels);

// Packs a matrix (row, k) times `factor` into slivers of `tile_rows`, as rows first_row, first_row + 1, ...; sliver s
// begins at slivers + s * tile_rows * columns. What the last sliver has beyond them is 0. Each product is rounded once;
// factor 1 is exact. Returns true when every product is finite.
template <class T, class A>
bool pack_slivers(const Matrix<T>& source, Index tile_rows, A factor, A* slivers, Index first_row = 0);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_PANELS_H_
