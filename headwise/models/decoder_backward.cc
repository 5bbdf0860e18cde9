// SPDX-License-Identifier: Apache-2.0
// The forward's lines, last first; and the loss, whose logits are made and used up in pieces.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/layers/token_rows.h"
#include "headwise/models/cross_entropy.h"
#include "headwise/models/decoder.h"
#include "headwise/models/decoder_sites.h"
#include "headwise/models/embedding.h"
#include "headwise/models/gelu.h"
#include "headwise/models/residual.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

constexpr const char* kWho = "Decoder";

// Tokens whose logits are held at once: a multiple of the linear block, and a function of the vocabulary alone, because
// the order in which the output projection's gradient is added up follows from it.
Index piece_rows(Index vocab, Index limit) { return std::max<Index>(256, limit / vocab / 256 * 256); }

template <class T>
TensorView<T, 2> some_rows(TensorView<T, 2> rows, Index first, Index count) {
  return rows.slice(0, first, first + count);
}

std::vector<std::int64_t> checked_targets(TensorView<const std::int64_t, 2> ids,
                                          TensorView<const std::int64_t, 2> targets, Index vocab) {
  check_shape(kWho, "targets", targets, {{"batch", ids.size(0)}, {"seq", ids.size(1)}});
  std::vector<std::int64_t> flat;
  flat.reserve(static_cast<std::size_t>(ids.size(0) * ids.size(1)));
  for (Index b = 0; b < targets.size(0); ++b) {
    for (Index i = 0; i < targets.size(1); ++i) {
      flat.push_back(targets(b, i));
      if (flat.back() >= 0 && flat.back() < vocab) continue;
      throw ArgumentError(
          fmt::format("{}: targets must be in 0..{}, got {} at ({}, {})", kWho, vocab - 1, flat.back(), b, i));
    }
  }
  return flat;
}

// The gradient that a branch sees: that of the stream, through the branch's dropout.
template <class T>
TensorView<const T, 3> through_dropout(const ElementDropout& dropout, DecoderActivations<T>& saved,
                                       const Execution& execution) {
  if (dropout.probability == 0) return saved.grad.cview();
  keep_shape(saved.grad_branch, saved.grad.shape());
  std::copy_n(saved.grad.data(), saved.grad.elements(), saved.grad_branch.data());
  apply_dropout<T>(dropout, all_elements(saved.grad_branch), execution);
  return saved.grad_branch.cview();
}

}  // namespace

template <class T>
void Decoder<T>::backward_block(Index layer, DecoderActivations<T>& saved, const Execution& execution) {
  Block& block = blocks_[layer];
  const DecoderBlockActivations<T>& kept = saved.blocks[layer];
  const auto dropout = [&](std::uint32_t site) { return branch_dropout(config_.dropout, saved.dropout, site); };

  TensorView<const T, 3> branch = through_dropout(dropout(feed_forward_site(layer)), saved, execution);
  keep_shape(saved.grad_wide, kept.wide.shape());
  block.narrow.backward_weight(block.narrow.all_rows(), *token_rows(branch), kept.active.cview(), execution);
  block.narrow.backward_x(block.narrow.all_rows(), *token_rows(branch), saved.grad_wide.view(), execution);
  gelu_backward<T>(config_.activation, kept.wide.cview(), saved.grad_wide.view(), execution);
  block.wide.backward_weight(block.wide.all_rows(), saved.grad_wide.cview(), kept.normed.cview(), execution);
  block.wide.backward_x(block.wide.all_rows(), saved.grad_wide.cview(), token_rows(saved.grad_normed), execution);
  const auto grad_normed = token_rows(std::as_const(saved.grad_normed));
  block.norm_2.backward(token_rows(kept.middle), kept.norm_2, grad_normed, token_rows(saved.grad), execution);

  branch = through_dropout(dropout(attention_site(layer)), saved, execution);
  block.attention.backward(kept.attention, branch, saved.grad_normed.view(), {}, {}, execution);
  block.norm_1.backward(token_rows(kept.x), kept.norm_1, grad_normed, token_rows(saved.grad), execution);
}

template <class T>
void Decoder<T>::backward_from_norm(DecoderActivations<T>& saved, const Execution& execution) {
  Execution inner = execution;
  inner.progress = {};
  keep_shape(saved.grad, saved.last.shape());
  saved.grad.fill(T{});
  last_norm_.backward(token_rows(std::as_const(saved.last)), saved.last_norm,
                      token_rows(std::as_const(saved.grad_normed)), token_rows(saved.grad), inner);
  for (Index layer = config_.layers - 1; layer >= 0; --layer) {
    backward_block(layer, saved, inner);
    if (execution.progress) execution.progress(config_.layers - layer, config_.layers);
  }
  apply_dropout<T>(branch_dropout(config_.dropout, saved.dropout, kEmbeddingSite), all_elements(saved.grad), inner);
  embed_backward<T>(saved.ids.cview(), token_rows(std::as_const(saved.grad)), words_.weight_gradient(),
                    positions_.weight_gradient(), inner);
}

template <class T>
void Decoder<T>::backward(DecoderActivations<T>& saved, TensorView<const T, 3> grad_logits,
                          const Execution& execution) {
  if (!saved) throw StateError("Decoder.backward: the activations hold no forward");
  if (gradients_ == Gradients::kNone) throw StateError("Decoder.backward: the decoder was built without gradients");
  const Axis batch{"batch", saved.ids.size(0)}, seq{"seq", saved.ids.size(1)}, hidden{"hidden", config_.hidden};
  const Index got[] = {static_cast<Index>(saved.blocks.size())};
  check_shape("Decoder.backward", "saved.blocks", got, {{"layers", config_.layers}});
  check_shape("Decoder.backward", "saved.last", saved.last.view(), {batch, seq, hidden});
  check_shape("Decoder.backward", "grad_logits", grad_logits, {batch, seq, {"vocab", config_.vocab}});
  const InputRows<T> rows(grad_logits);
  keep_shape(saved.grad_normed, saved.last.shape());
  head().backward_weight(head().all_rows(), rows.view(), saved.normed.cview(), execution);
  head().backward_x(head().all_rows(), rows.view(), token_rows(saved.grad_normed), execution);
  backward_from_norm(saved, execution);
}

template <class T>
double Decoder<T>::loss(TensorView<const std::int64_t, 2> ids, TensorView<const std::int64_t, 2> targets,
                        DecoderActivations<T>& room, const Execution& execution) const {
  check_ids(ids, 0);
  const std::vector<std::int64_t> flat = checked_targets(ids, targets, config_.vocab);
  run(ids, {}, room, {}, execution);
  const Index tokens = ids.size(0) * ids.size(1), step = piece_rows(config_.vocab, kLogitPiece);
  double sum = 0;
  for (Index first = 0; first < tokens; first += step) {
    const Index count = std::min(step, tokens - first);
    keep_shape(room.logits, Shape<2>{std::min(step, tokens), config_.vocab});
    const TensorView<T, 2> logits = some_rows(room.logits.view(), 0, count);
    head().forward(head().all_rows(), some_rows(room.normed.cview(), first, count), logits, execution);
    sum += cross_entropy<T>(logits, std::span(flat).subspan(first, count), 0, execution);
  }
  return sum / static_cast<double>(tokens);
}

template <class T>
double Decoder<T>::loss_and_gradients(TensorView<const std::int64_t, 2> ids, TensorView<const std::int64_t, 2> targets,
                                      const DecoderDropout& dropout, DecoderActivations<T>& saved,
                                      const Execution& execution) {
  if (gradients_ == Gradients::kNone) throw StateError("Decoder: the decoder was built without gradients");
  check_ids(ids, 0);
  const std::vector<std::int64_t> flat = checked_targets(ids, targets, config_.vocab);
  run(ids, dropout, saved, {}, execution);
  const Index tokens = ids.size(0) * ids.size(1), step = piece_rows(config_.vocab, kLogitPiece);
  keep_shape(saved.grad_normed, saved.last.shape());
  double sum = 0;
  for (Index first = 0; first < tokens; first += step) {
    const Index count = std::min(step, tokens - first);
    keep_shape(saved.logits, Shape<2>{std::min(step, tokens), config_.vocab});
    const TensorView<T, 2> logits = some_rows(saved.logits.view(), 0, count);
    const TensorView<const T, 2> normed = some_rows(saved.normed.cview(), first, count);
    head().forward(head().all_rows(), normed, logits, execution);
    sum += cross_entropy<T>(logits, std::span(flat).subspan(first, count), 1 / static_cast<double>(tokens), execution);
    head().backward_weight(head().all_rows(), logits, normed, execution);
    head().backward_x(head().all_rows(), logits, some_rows(token_rows(saved.grad_normed), first, count), execution);
  }
  if (tokens > 0) backward_from_norm(saved, execution);
  return sum / static_cast<double>(tokens);
}

#define HEADWISE_DECODER_BACKWARD(T)                                                                                   \
  template void Decoder<T>::backward_block(Index, DecoderActivations<T>&, const Execution&);                           \
  template void Decoder<T>::backward_from_norm(DecoderActivations<T>&, const Execution&);                              \
  template void Decoder<T>::backward(DecoderActivations<T>&, TensorView<const T, 3>, const Execution&);                \
  template double Decoder<T>::loss(TensorView<const std::int64_t, 2>, TensorView<const std::int64_t, 2>,               \
                                   DecoderActivations<T>&, const Execution&) const;                                    \
  template double Decoder<T>::loss_and_gradients(TensorView<const std::int64_t, 2>, TensorView<const std::int64_t, 2>, \
                                                 const DecoderDropout&, DecoderActivations<T>&, const Execution&);
HEADWISE_DECODER_BACKWARD(float)
HEADWISE_DECODER_BACKWARD(double)
#undef HEADWISE_DECODER_BACKWARD

}  // namespace headwise
