// SPDX-License-Identifier: Apache-2.0
// What a branch gave joins the residual stream. Not installed.
#ifndef HEADWISE_MODELS_RESIDUAL_H_
#define HEADWISE_MODELS_RESIDUAL_H_

#include <type_traits>

#include "headwise/models/dropout.h"
#include "headwise/models/row_tiles.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// Keeps the block of a tensor whose shape has not changed.
template <class T, int Rank>
void keep_shape(Tensor<T, Rank>& tensor, const std::type_identity_t<Shape<Rank>>& shape) {
  if (!tensor || tensor.shape() != shape) tensor = Tensor<T, Rank>(shape);
}

template <class T>
std::span<T> all_elements(Tensor<T, 3>& tensor) {
  return {tensor.data(), static_cast<std::size_t>(tensor.elements())};
}

// branch = x + dropout(branch); (batch, seq, hidden), dense.
template <class T>
void add_residual(const ElementDropout& dropout, TensorView<const T, 3> x, TensorView<T, 3> branch,
                  const Execution& execution) {
  const Index width = x.size(2), rows = x.size(0) * x.size(1);
  apply_dropout<T>(dropout, {branch.data(), static_cast<std::size_t>(rows * width)}, execution);
  for_row_tiles(rows, width, execution, [&](Index first, Index last) {
    for (Index n = first * width; n < last * width; ++n) branch.data()[n] = x.data()[n] + branch.data()[n];
  });
}

}  // namespace headwise

#endif  // HEADWISE_MODELS_RESIDUAL_H_
