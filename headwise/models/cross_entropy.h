// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy: -log softmax(logits)[target], in nats.
#ifndef HEADWISE_MODELS_CROSS_ENTROPY_H_
#define HEADWISE_MODELS_CROSS_ENTROPY_H_

#include <cstdint>
#include <span>

#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// The sum of the rows' losses, added in double, row after row. logits: (tokens, vocab), dense; targets: (tokens,), each
// in 0..vocab - 1. The logits are spent: with grad_scale not 0 they become the gradient of grad_scale * sum, otherwise
// their values are unspecified. Throws ShapeError, or ArgumentError for a target out of range, with nothing written.
template <class T>
double cross_entropy(TensorView<T, 2> logits, std::span<const std::int64_t> targets, double grad_scale,
                     const Execution& execution = {});

extern template double cross_entropy(TensorView<float, 2>, std::span<const std::int64_t>, double, const Execution&);
extern template double cross_entropy(TensorView<double, 2>, std::span<const std::int64_t>, double, const Execution&);

}  // namespace headwise

#endif  // HEADWISE_MODELS_CROSS_ENTROPY_H_
