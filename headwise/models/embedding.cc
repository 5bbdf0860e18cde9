// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/embedding.h"

#include <algorithm>

#include "headwise/models/row_tiles.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

// Columns of one task of the backward: all its tokens, in order, for these.
constexpr Index kColumns = 32;

}  // namespace

template <class T>
void embed(TensorView<const std::int64_t, 2> ids, Index first, TensorView<const T, 2> words,
           TensorView<const T, 2> positions, TensorView<T, 2> hidden, const Execution& execution) {
  const Index seq = ids.size(1), width = hidden.size(1);
  for_row_tiles(hidden.size(0), width, execution, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const T* word = words.data() + ids(t / seq, t % seq) * words.stride(0);
      const T* position = positions.data() + (first + t % seq) * positions.stride(0);
      T* out = hidden.data() + t * hidden.stride(0);
      for (Index d = 0; d < width; ++d) out[d] = word[d] + position[d];
    }
  });
}

template <class T>
void embed_backward(TensorView<const std::int64_t, 2> ids, TensorView<const T, 2> grad_hidden,
                    TensorView<T, 2> grad_words, TensorView<T, 2> grad_positions, const Execution& execution) {
  const Index seq = ids.size(1), width = grad_hidden.size(1), tokens = grad_hidden.size(0);
  run_tasks(execution, (width + kColumns - 1) / kColumns, [&](Index task, int) {
    const Index begin = task * kColumns, count = std::min(kColumns, width - begin);
    for (Index t = 0; t < tokens; ++t) {
      const T* grad = grad_hidden.data() + t * grad_hidden.stride(0) + begin;
      T* word = grad_words.data() + ids(t / seq, t % seq) * grad_words.stride(0) + begin;
      T* position = grad_positions.data() + t % seq * grad_positions.stride(0) + begin;
      for (Index d = 0; d < count; ++d) word[d] += grad[d];
      for (Index d = 0; d < count; ++d) position[d] += grad[d];
    }
  });
}

#define HEADWISE_EMBEDDING(T)                                                                             \
  template HEADWISE_EXPORT void embed(TensorView<const std::int64_t, 2>, Index, TensorView<const T, 2>,   \
                                      TensorView<const T, 2>, TensorView<T, 2>, const Execution&);        \
  template HEADWISE_EXPORT void embed_backward(TensorView<const std::int64_t, 2>, TensorView<const T, 2>, \
                                               TensorView<T, 2>, TensorView<T, 2>, const Execution&);
HEADWISE_EMBEDDING(float)
HEADWISE_EMBEDDING(double)
#undef HEADWISE_EMBEDDING

}  // namespace headwise
