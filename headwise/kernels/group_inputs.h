// SPDX-License-Identifier: Apache-2.0
// What a group of heads reads, to be fetched ahead: groups are claimed in order, so a worker's next one is known.
#ifndef HEADWISE_KERNELS_GROUP_INPUTS_H_
#define HEADWISE_KERNELS_GROUP_INPUTS_H_

#include "headwise/kernels/attention.h"
#include "headwise/kernels/panels.h"
#include "headwise/kernels/read_ahead.h"

namespace headwise {

// Keys, values and queries of a group, within a quarter of the products of one; nothing beyond the last group.
template <class T>
ReadAhead inputs_of_group(const AttentionProblem<T>& problem, const AttentionShape& shape, const TileShape& tile,
                          Index group) {
  ReadAhead ahead;
  if (group >= shape.batch * shape.kv_heads) return ahead;
  const Index b = group / shape.kv_heads, g = group % shape.kv_heads, heads = shape.heads / shape.kv_heads;
  ahead.add(problem.inputs.keys.select(0, b).select(0, g));
  ahead.add(problem.inputs.values.select(0, b).select(0, g));
  for (Index n = 0; n < heads; ++n) ahead.add(problem.inputs.queries.select(0, b).select(0, g * heads + n));
  const Index products = kKeyBlock / tile.width + ceil_div(shape.v_head_dim, tile.width);
  ahead.spread_over(ceil_div(heads * shape.seq_q, tile.rows) * ceil_div(shape.seq_kv, kKeyBlock) * products / 4);
  return ahead;
}

}  // namespace headwise

#endif  // HEADWISE_KERNELS_GROUP_INPUTS_H_
