// SPDX-License-Identifier: Apache-2.0
// One more token, or a few, behind those whose keys and values are kept.
#include <utility>

#include "headwise/layers/head_views.h"
#include "headwise/layers/token_rows.h"
#include "headwise/models/decoder.h"
#include "headwise/models/embedding.h"
#include "headwise/models/gelu.h"
#include "headwise/models/residual.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {

template <class T>
DecoderState<T> Decoder<T>::start(Index batch) const {
  DecoderState<T> state;
  for (Index layer = 0; layer < config_.layers; ++layer) {
    state.layers.emplace_back(KvCacheShape{batch, config_.heads, config_.positions, head_dim(), head_dim()});
  }
  return state;
}

template <class T>
void Decoder<T>::decode_block(Index layer, DecoderState<T>& state, TensorView<T, 3> x,
                              const Execution& execution) const {
  const Block& block = blocks_[layer];
  KvCache<T>& cache = state.layers[layer];
  const Index batch = x.size(0), seq = x.size(1), tokens = batch * seq, width = config_.hidden;
  const TensorView<T, 2> rows = *token_rows(x);
  const Linear<T>&qkv = block.attention.qkv(), &out_proj = block.attention.out_proj();
  Tensor<T, 2> normed(Shape<2>{tokens, width});
  Tensor<T, 3> projected(Shape<3>{batch, seq, 3 * width}), context(Shape<3>{batch, seq, width});
  Tensor<T, 3> branch(Shape<3>{batch, seq, width});

  block.norm_1.forward(rows, normed.view(), nullptr, execution);
  qkv.forward(qkv.all_rows(), normed.cview(), token_rows(projected), execution);
  const HeadViews<const T> heads = head_views<const T>(block.attention.sizes(), projected.cview(), {});
  cache.append(heads.keys, heads.values);
  AttentionProblem<T> problem;
  problem.inputs.queries = heads.queries;
  problem.visibility.causal = true;
  AttentionOutputs<T> outputs;
  outputs.context = heads_of(context.view(), 0, width, config_.heads);
  cache.attend(problem, outputs, execution);
  out_proj.forward(out_proj.all_rows(), token_rows(std::as_const(context)), token_rows(branch), execution);
  add_residual<T>({}, branch.cview(), x, execution);

  block.norm_2.forward(rows, normed.view(), nullptr, execution);
  Tensor<T, 2> wide(Shape<2>{tokens, config_.feed_forward()});
  block.wide.forward(block.wide.all_rows(), normed.cview(), wide.view(), execution);
  gelu_forward<T>(config_.activation, wide.cview(), wide.view(), execution);
  block.narrow.forward(block.narrow.all_rows(), wide.cview(), token_rows(branch), execution);
  add_residual<T>({}, branch.cview(), x, execution);
}

template <class T>
Tensor<T, 2> Decoder<T>::decode(TensorView<const std::int64_t, 2> ids, DecoderState<T>& state,
                                const Execution& execution) const {
  const Index held = state.layers.empty() ? 0 : state.length();
  check_ids(ids, held);
  const Index got[] = {static_cast<Index>(state.layers.size())}, batch = ids.size(0), seq = ids.size(1);
  check_shape("Decoder", "state.layers", got, {{"layers", config_.layers}});
  check_shape("Decoder", "ids", ids, {{"batch", state.batch()}, {"seq"}});
  if (seq == 0) throw ArgumentError("Decoder: decode needs at least one token");
  Tensor<T, 3> x(Shape<3>{batch, seq, config_.hidden});
  embed<T>(ids, held, words_.weight(), positions_.weight(), token_rows(x), execution);
  for (Index layer = 0; layer < config_.layers; ++layer) decode_block(layer, state, x.view(), execution);
  // Of the tokens only the last one's logits are wanted.
  const Tensor<T, 2> last(x.cview().select(1, seq - 1));
  Tensor<T, 2> normed(last.shape()), logits(Shape<2>{batch, config_.vocab});
  last_norm_.forward(last.cview(), normed.view(), nullptr, execution);
  head().forward(head().all_rows(), normed.cview(), logits.view(), execution);
  return logits;
}

#define HEADWISE_DECODER_DECODE(T)                                                                           \
  template DecoderState<T> Decoder<T>::start(Index) const;                                                   \
  template void Decoder<T>::decode_block(Index, DecoderState<T>&, TensorView<T, 3>, const Execution&) const; \
  template Tensor<T, 2> Decoder<T>::decode(TensorView<const std::int64_t, 2>, DecoderState<T>&, const Execution&) const;
HEADWISE_DECODER_DECODE(float)
HEADWISE_DECODER_DECODE(double)
#undef HEADWISE_DECODER_DECODE

}  // namespace headwise
