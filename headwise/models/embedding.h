// SPDX-License-Identifier: Apache-2.0
// Token and position embedding of a decoder, and their gradients.
#ifndef HEADWISE_MODELS_EMBEDDING_H_
#define HEADWISE_MODELS_EMBEDDING_H_

#include <cstdint>

#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// hidden[b * seq + i] = words[ids(b, i)] + positions[first + i]. ids: (batch, seq), words: (vocab, hidden), positions:
// (positions, hidden), hidden: (batch * seq, hidden), overwritten; all dense. Ids and positions must be in range.
template <class T>
void embed(TensorView<const std::int64_t, 2> ids, Index first, TensorView<const T, 2> words,
           TensorView<const T, 2> positions, TensorView<T, 2> hidden, const Execution& execution = {});

// Adds grad_hidden (batch * seq, hidden) to the rows of grad_words (vocab, hidden) and grad_positions (positions,
// hidden), token after token in batch-major order: the same bits for any number of threads.
template <class T>
void embed_backward(TensorView<const std::int64_t, 2> ids, TensorView<const T, 2> grad_hidden,
                    TensorView<T, 2> grad_words, TensorView<T, 2> grad_positions, const Execution& execution = {});

#define HEADWISE_EMBEDDING_EXTERN(T)                                                                                   \
  extern template void embed(TensorView<const std::int64_t, 2>, Index, TensorView<const T, 2>, TensorView<const T, 2>, \
                             TensorView<T, 2>, const Execution&);                                                      \
  extern template void embed_backward(TensorView<const std::int64_t, 2>, TensorView<const T, 2>, TensorView<T, 2>,     \
                                      TensorView<T, 2>, const Execution&);
HEADWISE_EMBEDDING_EXTERN(float)
HEADWISE_EMBEDDING_EXTERN(double)
#undef HEADWISE_EMBEDDING_EXTERN

}  // namespace headwise

#endif  // HEADWISE_MODELS_EMBEDDING_H_
