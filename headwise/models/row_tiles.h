// SPDX-License-Identifier: Apache-2.0
// Rows in tiles of fixed height, for sums and element-wise work. Not installed.
#ifndef HEADWISE_MODELS_ROW_TILES_H_
#define HEADWISE_MODELS_ROW_TILES_H_

#include <algorithm>

#include "headwise/runtime/run_tasks.h"

namespace headwise {

// Elements that are worth a task of their own.
inline constexpr Index kTileElements = 16384;

// Calls body(first, last) for tiles of [0, rows), on all threads. Only for work whose result does not depend on how
// the rows are cut.
template <class Body>
void for_row_tiles(Index rows, Index width, const Execution& execution, const Body& body) {
  const Index height = std::max<Index>(1, kTileElements / std::max<Index>(1, width));
  run_tasks(execution, (rows + height - 1) / height,
            [&](Index tile, int) { body(tile * height, std::min(rows, (tile + 1) * height)); });
}

}  // namespace headwise

#endif  // HEADWISE_MODELS_ROW_TILES_H_
