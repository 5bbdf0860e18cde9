// SPDX-License-Identifier: Apache-2.0
// Which columns of a key block a row, a group of rows or a tile needs: empty ones are skipped, partial ones cut.
#ifndef HEADWISE_KERNELS_BLOCK_COLUMNS_H_
#define HEADWISE_KERNELS_BLOCK_COLUMNS_H_

#include <algorithm>

#include "headwise/kernels/blocks.h"
#include "headwise/kernels/row_rules.h"

namespace headwise {

// Columns [begin, end) of a key block, counted from its start. Empty when begin >= end.
struct RowColumns {
  Index begin = kKeyBlock, end = 0;

  bool empty() const { return begin >= end; }
  bool contains(Index column) const { return begin <= column && column < end; }
};

template <class A>
inline RowColumns columns_of_row(const TileRow<A>& row, Index start) {
  const RowColumns columns{std::max<Index>(row.begin - start, 0), std::min(row.end - start, kKeyBlock)};
  return columns.empty() ? RowColumns{} : columns;
}

// From the first column that any of the rows needs to the last.
template <class A>
inline RowColumns columns_of_rows(const TileRow<A>* rows, Index count, Index start) {
  RowColumns all;
  for (Index r = 0; r < count; ++r) {
    const RowColumns own = columns_of_row(rows[r], start);
    if (own.empty()) continue;
    all.begin = std::min(all.begin, own.begin);
    all.end = std::max(all.end, own.end);
  }
  return all;
}

// True when every row needs exactly the columns that the tile as a whole needs.
template <class A>
inline bool every_row_needs(const RowColumns& all, const TileRow<A>* rows, Index count, Index start) {
  for (Index r = 0; r < count; ++r) {
    const RowColumns own = columns_of_row(rows[r], start);
    if (own.begin != all.begin || own.end != all.end) return false;
  }
  return true;
}

}  // namespace headwise

#endif  // HEADWISE_KERNELS_BLOCK_COLUMNS_H_
