// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/cross_entropy.h"

#include <fmt/format.h>

#include "headwise/kernels/cross_entropy_rows.h"
#include "headwise/models/row_tiles.h"
#include "headwise/runtime/scratch.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {

template <class T>
double cross_entropy(TensorView<T, 2> logits, std::span<const std::int64_t> targets, double grad_scale,
                     const Execution& execution) {
  const Index tokens = logits.size(0), vocab = logits.size(1);
  const Index got[] = {static_cast<Index>(targets.size())};
  check_shape("cross_entropy", "targets", got, {{"tokens", tokens}});
  if (logits.stride(1) != 1 || (tokens > 1 && logits.stride(0) != vocab)) {
    throw ShapeError("cross_entropy: logits must be dense");
  }
  for (Index t = 0; t < tokens; ++t) {
    if (targets[t] >= 0 && targets[t] < vocab) continue;
    throw ArgumentError(
        fmt::format("cross_entropy: targets must be in 0..{}, got {} at token {}", vocab - 1, targets[t], t));
  }
  ScratchFrame frame;
  double* losses = frame.take<double>(tokens);
  const auto run = cross_entropy_for<T>(chosen_isa());
  for_row_tiles(tokens, vocab, execution, [&](Index first, Index last) {
    run({logits.data() + first * vocab, targets.data() + first, last - first, vocab, losses + first, grad_scale != 0,
         grad_scale});
  });
  double sum = 0;
  for (Index t = 0; t < tokens; ++t) sum += losses[t];
  return sum;
}

template HEADWISE_EXPORT double cross_entropy(TensorView<float, 2>, std::span<const std::int64_t>, double,
                                              const Execution&);
template HEADWISE_EXPORT double cross_entropy(TensorView<double, 2>, std::span<const std::int64_t>, double,
                                              const Execution&);

}  // namespace headwise
