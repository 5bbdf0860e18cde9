// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "headwise/layers/token_rows.h"
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

template <class T>
void check_traces(const DecoderConfig& config, std::span<const LayerTrace<T>> traces, const Shape<2>& ids) {
  for (const LayerTrace<T>& trace : traces) {
    if (trace.layer < 0 || trace.layer >= config.layers) {
      throw ArgumentError(
          fmt::format("{}: trace layer must be in 0..{}, got {}", kWho, config.layers - 1, trace.layer));
    }
    if (!trace.hidden) continue;
    check_shape(kWho, "trace hidden", trace.hidden, {{"batch", ids[0]}, {"seq", ids[1]}, {"hidden", config.hidden}});
  }
}

}  // namespace

template <class T>
void Decoder<T>::check_ids(TensorView<const std::int64_t, 2> ids, Index held) const {
  check_shape(kWho, "ids", ids, {{"batch"}, {"seq"}});
  if (held + ids.size(1) > config_.positions) {
    const std::string before = held == 0 ? "" : fmt::format("{} + ", held);
    throw ArgumentError(
        fmt::format("{}: ids has seq={}{} tokens, above positions={}", kWho, before, ids.size(1), config_.positions));
  }
  for (Index b = 0; b < ids.size(0); ++b) {
    for (Index i = 0; i < ids.size(1); ++i) {
      if (ids(b, i) >= 0 && ids(b, i) < config_.vocab) continue;
      throw ArgumentError(
          fmt::format("{}: ids must be in 0..{}, got {} at ({}, {})", kWho, config_.vocab - 1, ids(b, i), b, i));
    }
  }
}

template <class T>
void Decoder<T>::run_block(Index layer, const DecoderDropout& dropout, DecoderActivations<T>& saved,
                           const LayerOutputs<T>& extras, TensorView<T, 3> out, const Execution& execution) const {
  const Block& block = blocks_[layer];
  DecoderBlockActivations<T>& kept = saved.blocks[layer];
  const Shape<3> shape = kept.x.shape();
  const Index tokens = shape[0] * shape[1];
  keep_shape(kept.middle, shape);
  keep_shape(kept.normed, Shape<2>{tokens, config_.hidden});
  keep_shape(kept.wide, Shape<2>{tokens, config_.feed_forward()});
  keep_shape(kept.active, Shape<2>{tokens, config_.feed_forward()});

  block.norm_1.forward(token_rows(std::as_const(kept.x)), token_rows(saved.normed_x), &kept.norm_1, execution);
  ForwardOptions<T> options;
  options.dropout = attention_dropout(dropout, layer);
  block.attention.forward_into(saved.normed_x.view(), {}, options, kept.middle.view(), &kept.attention, extras,
                               execution);
  add_residual<T>(branch_dropout(config_.dropout, dropout, attention_site(layer)), kept.x.cview(), kept.middle.view(),
                  execution);

  block.norm_2.forward(token_rows(std::as_const(kept.middle)), kept.normed.view(), &kept.norm_2, execution);
  block.wide.forward(block.wide.all_rows(), kept.normed.cview(), kept.wide.view(), execution);
  gelu_forward<T>(config_.activation, kept.wide.cview(), kept.active.view(), execution);
  block.narrow.forward(block.narrow.all_rows(), kept.active.cview(), *token_rows(out), execution);
  add_residual<T>(branch_dropout(config_.dropout, dropout, feed_forward_site(layer)), kept.middle.cview(), out,
                  execution);
}

template <class T>
void Decoder<T>::run(TensorView<const std::int64_t, 2> ids, const DecoderDropout& dropout, DecoderActivations<T>& saved,
                     std::span<const LayerTrace<T>> traces, const Execution& execution) const {
  saved.complete = false;
  saved.dropout = dropout;
  const Shape<3> shape{ids.size(0), ids.size(1), config_.hidden};
  keep_shape(saved.ids, ids.shape());
  copy_elements(ids, saved.ids.view());
  saved.blocks.resize(static_cast<std::size_t>(config_.layers));
  for (DecoderBlockActivations<T>& block : saved.blocks) keep_shape(block.x, shape);
  keep_shape(saved.last, shape);
  keep_shape(saved.normed_x, shape);
  keep_shape(saved.normed, Shape<2>{shape[0] * shape[1], shape[2]});

  Execution inner = execution;
  inner.progress = {};  // one report a layer, not one a kernel call
  Tensor<T, 3>& first = saved.blocks.front().x;
  embed<T>(ids, 0, words_.weight(), positions_.weight(), token_rows(first), inner);
  apply_dropout<T>(branch_dropout(config_.dropout, dropout, kEmbeddingSite),
                   {first.data(), static_cast<std::size_t>(first.elements())}, inner);
  for (Index layer = 0; layer < config_.layers; ++layer) {
    const TensorView<T, 3> out = layer + 1 < config_.layers ? saved.blocks[layer + 1].x.view() : saved.last.view();
    LayerTrace<T> wanted;
    for (const LayerTrace<T>& trace : traces) {
      if (trace.layer == layer) wanted = trace;
    }
    run_block(layer, dropout, saved, wanted.attention, out, inner);
    if (wanted.hidden) copy_elements(out, wanted.hidden);
    if (execution.progress) execution.progress(layer + 1, config_.layers);
  }
  last_norm_.forward(token_rows(std::as_const(saved.last)), saved.normed.view(), &saved.last_norm, inner);
  saved.complete = true;
}

template <class T>
Tensor<T, 3> Decoder<T>::forward(TensorView<const std::int64_t, 2> ids, const DecoderDropout& dropout,
                                 DecoderActivations<T>* saved, std::span<const LayerTrace<T>> traces,
                                 const Execution& execution) const {
  check_ids(ids, 0);
  check_traces(config_, traces, ids.shape());
  DecoderActivations<T> local;
  DecoderActivations<T>& kept = saved != nullptr ? *saved : local;
  run(ids, dropout, kept, traces, execution);
  Tensor<T, 3> logits(Shape<3>{ids.size(0), ids.size(1), config_.vocab});
  head().forward(head().all_rows(), kept.normed.cview(), token_rows(logits), execution);
  return logits;
}

#define HEADWISE_DECODER_FORWARD(T)                                                                                   \
  template void Decoder<T>::check_ids(TensorView<const std::int64_t, 2>, Index) const;                                \
  template void Decoder<T>::run_block(Index, const DecoderDropout&, DecoderActivations<T>&, const LayerOutputs<T>&,   \
                                      TensorView<T, 3>, const Execution&) const;                                      \
  template void Decoder<T>::run(TensorView<const std::int64_t, 2>, const DecoderDropout&, DecoderActivations<T>&,     \
                                std::span<const LayerTrace<T>>, const Execution&) const;                              \
  template Tensor<T, 3> Decoder<T>::forward(TensorView<const std::int64_t, 2>, const DecoderDropout&,                 \
                                            DecoderActivations<T>*, std::span<const LayerTrace<T>>, const Execution&) \
      const;
HEADWISE_DECODER_FORWARD(float)
HEADWISE_DECODER_FORWARD(double)
#undef HEADWISE_DECODER_FORWARD

}  // namespace headwise
