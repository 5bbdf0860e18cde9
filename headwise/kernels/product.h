// SPDX-License-Identifier: Apache-2.0
// The matrix product behind the projection and its gradients: chains over blocks of 256, folded left to right.
#ifndef HEADWISE_KERNELS_PRODUCT_H_
#define HEADWISE_KERNELS_PRODUCT_H_

#include "headwise/kernels/panels.h"
#include "headwise/kernels/read_ahead.h"
#include "headwise/runtime/execution.h"
#include "headwise/runtime/isa.h"

namespace headwise {

// out[m][n] = sum over k of left[m][k] * right[k][n] (+ bias[n]), overwritten; with `add`, added to what is there.
template <class A>
struct Product {
  Matrix<A> left;   // (rows, depth)
  Matrix<A> right;  // (depth, columns)
  const A* bias = nullptr;
  Index bias_stride = 1;
  bool add = false;
  A* out = nullptr;  // element (m, n) at out[m * out_row_stride + n * out_column_stride]
  Index out_row_stride = 0, out_column_stride = 1;
};

template <class A>
void run_product(const Product<A>& product, const Execution& execution, Isa isa);

// Multiplies slivers by the panels of one depth block: total (rows x stride) = or += the chains. With `out`, the block
// is the last: the sums go there, plus bias, and are added to what is there with `add`. The columns of `out` lie side
// by side and are whole vectors.
template <class A>
struct ProductBlock {
  const A* slivers = nullptr;  // rows, depth `depth`
  const A* panels = nullptr;
  PanelLayout layout;
  Index rows = 0, depth = 0;
  bool first = false;  // the first block is stored, later ones are added
  A* total = nullptr;
  Index stride = 0;
  A* out = nullptr;
  Index out_stride = 0;
  const A* bias = nullptr;  // for each column of `out`, or null
  bool add = false;
  ReadAhead* ahead = nullptr;  // what to fetch meanwhile, or null
};
template <class A>
using ProductBlockFunction = void (*)(const ProductBlock<A>&);
template <class A>
ProductBlockFunction<A> product_block_for(Isa isa);
// Columns of a whole vector.
template <class A>
Index product_vector_width(Isa isa);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_PRODUCT_H_
