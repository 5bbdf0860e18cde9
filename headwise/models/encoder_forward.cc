// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "headwise/layers/token_rows.h"
#include "headwise/models/encoder.h"
#include "headwise/models/gelu.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

constexpr const char* kWho = "Encoder";

Index length_of(const EncoderInputs& inputs, Index batch) {
  return inputs.lengths.empty() ? inputs.ids.size(1) : inputs.lengths[batch];
}

bool has_padding(const EncoderInputs& inputs) {
  for (Index length : inputs.lengths) {
    if (length < inputs.ids.size(1)) return true;
  }
  return false;
}

void check_lengths(const EncoderInputs& inputs) {
  if (inputs.lengths.empty()) return;
  const Index seq = inputs.ids.size(1);
  const Index got[] = {static_cast<Index>(inputs.lengths.size())};
  check_shape(kWho, "lengths", got, {{"batch", inputs.ids.size(0)}});
  for (std::size_t b = 0; b < inputs.lengths.size(); ++b) {
    if (inputs.lengths[b] >= 0 && inputs.lengths[b] <= seq) continue;
    throw ArgumentError(
        fmt::format("{}: lengths must be in 0..seq={}, got {} at batch entry {}", kWho, seq, inputs.lengths[b], b));
  }
}

// Padding is not looked at.
void check_range(const EncoderInputs& inputs, TensorView<const std::int64_t, 2> values, const char* name, Index count) {
  for (Index b = 0; b < values.size(0); ++b) {
    for (Index i = 0; i < length_of(inputs, b); ++i) {
      if (values(b, i) >= 0 && values(b, i) < count) continue;
      throw ArgumentError(
          fmt::format("{}: {} must be in 0..{}, got {} at ({}, {})", kWho, name, count - 1, values(b, i), b, i));
    }
  }
}

template <class T>
void check_traces(const EncoderConfig& config, std::span<const LayerTrace<T>> traces, const Shape<2>& ids) {
  std::vector<bool> asked(config.layers, false);
  for (const LayerTrace<T>& trace : traces) {
    if (trace.layer < 0 || trace.layer >= config.layers) {
      throw ArgumentError(
          fmt::format("{}: trace layer must be in 0..{}, got {}", kWho, config.layers - 1, trace.layer));
    }
    if (asked[trace.layer]) throw ArgumentError(fmt::format("{}: layer {} is traced twice", kWho, trace.layer));
    asked[trace.layer] = true;
    if (!trace.hidden) continue;
    check_shape(kWho, "trace hidden", trace.hidden, {{"batch", ids[0]}, {"seq", ids[1]}, {"hidden", config.hidden}});
  }
}

// Sets the rows of padding to 0 in a view whose batch axis is 0.
template <class T>
void clear_padding(const EncoderInputs& inputs, TensorView<T, 3> hidden) {
  for (Index b = 0; b < hidden.size(0); ++b) {
    for (Index i = length_of(inputs, b); i < hidden.size(1); ++i) {
      for (Index d = 0; d < hidden.size(2); ++d) hidden(b, i, d) = T{};
    }
  }
}

template <class T>
void clear_padding(const EncoderInputs& inputs, TensorView<T, 4> by_head) {
  if (!by_head) return;
  for (Index head = 0; head < by_head.size(1); ++head) clear_padding(inputs, by_head.select(1, head));
}

// (batch, 1, seq, 1): rows of padding see no key, so that their weights and statistics are 0 and cost nothing.
Tensor<bool, 4> row_mask(const EncoderInputs& inputs) {
  Tensor<bool, 4> mask(Shape<4>{inputs.ids.size(0), 1, inputs.ids.size(1), 1});
  for (Index b = 0; b < inputs.ids.size(0); ++b) {
    for (Index i = 0; i < length_of(inputs, b); ++i) mask(b, 0, i, 0) = true;
  }
  return mask;
}

// x + y, normalised, in place.
template <class T>
void add_and_normalize(TensorView<T, 2> x, TensorView<const T, 2> y, const LayerNorm<T>& norm) {
  for (Index t = 0; t < x.size(0); ++t) {
    for (Index i = 0; i < x.size(1); ++i) x(t, i) += y(t, i);
  }
  norm.apply(x);
}

}  // namespace

template <class T>
void Encoder<T>::check_inputs(const EncoderInputs& inputs) const {
  check_shape(kWho, "ids", inputs.ids, {{"batch"}, {"seq"}});
  const Index batch = inputs.ids.size(0), seq = inputs.ids.size(1);
  if (seq > config_.positions) {
    throw ArgumentError(fmt::format("{}: ids has seq={} tokens, above positions={}", kWho, seq, config_.positions));
  }
  check_lengths(inputs);
  check_range(inputs, inputs.ids, "ids", config_.vocab);
  if (!inputs.token_types) return;
  check_shape(kWho, "token_types", inputs.token_types, {{"batch", batch}, {"seq", seq}});
  check_range(inputs, inputs.token_types, "token_types", config_.type_vocab);
}

// word + position + token type, normalised; rows of padding are left at 0.
template <class T>
void Encoder<T>::embed(const EncoderInputs& inputs, TensorView<T, 3> hidden) const {
  for (Index b = 0; b < hidden.size(0); ++b) {
    for (Index i = 0; i < length_of(inputs, b); ++i) {
      const Index word = inputs.ids(b, i), type = inputs.token_types ? inputs.token_types(b, i) : 0;
      for (Index d = 0; d < config_.hidden; ++d) hidden(b, i, d) = words_(word, d) + types_(type, d) + positions_(i, d);
    }
    embedding_norm_.apply(hidden.select(0, b).slice(0, 0, length_of(inputs, b)));
  }
}

template <class T>
void Encoder<T>::run_block(const Block& block, const ForwardOptions<T>& options, TensorView<T, 3> hidden,
                           const LayerOutputs<T>& extras, const Execution& execution) const {
  const TensorView<T, 2> rows = *token_rows(hidden);
  Tensor<T, 3> attended = block.attention.forward(hidden, {}, options, nullptr, extras, execution);
  add_and_normalize<T>(rows, token_rows(attended), block.attention_norm);
  Tensor<T, 2> wide(Shape<2>{rows.size(0), config_.intermediate});
  block.intermediate.forward(block.intermediate.all_rows(), rows, wide.view(), execution);
  gelu_forward<T>("gelu", wide.cview(), wide.view(), execution);
  block.output.forward(block.output.all_rows(), wide.cview(), token_rows(attended), execution);
  add_and_normalize<T>(rows, token_rows(attended), block.output_norm);
}

template <class T>
Tensor<T, 3> Encoder<T>::forward(const EncoderInputs& inputs, std::span<const LayerTrace<T>> traces,
                                 const Execution& execution) const {
  check_inputs(inputs);
  check_traces(config_, traces, inputs.ids.shape());
  Tensor<T, 3> hidden(Shape<3>{inputs.ids.size(0), inputs.ids.size(1), config_.hidden});
  embed(inputs, hidden.view());
  ForwardOptions<T> options;
  Tensor<bool, 4> mask;
  if (has_padding(inputs)) {
    mask = row_mask(inputs);
    options.visibility.mask = mask.cview();
    options.visibility.kv_lengths = inputs.lengths;
  }
  Execution inner = execution;
  inner.progress = {};  // one report a layer, not one a kernel call
  for (Index layer = 0; layer < config_.layers; ++layer) {
    if (execution.cancelled()) throw Cancelled();
    LayerTrace<T> wanted;
    for (const LayerTrace<T>& trace : traces) {
      if (trace.layer == layer) wanted = trace;
    }
    run_block(blocks_[layer], options, hidden.view(), wanted.attention, inner);
    clear_padding(inputs, hidden.view());
    for (const auto& view : {wanted.attention.queries, wanted.attention.keys, wanted.attention.values}) {
      clear_padding(inputs, view);
    }
    if (wanted.hidden) copy_elements(hidden.view(), wanted.hidden);
    if (execution.progress) execution.progress(layer + 1, config_.layers);
  }
  return hidden;
}

#define HEADWISE_ENCODER(T)                                                                                         \
  template void Encoder<T>::check_inputs(const EncoderInputs&) const;                                               \
  template void Encoder<T>::embed(const EncoderInputs&, TensorView<T, 3>) const;                                    \
  template void Encoder<T>::run_block(const Block&, const ForwardOptions<T>&, TensorView<T, 3>,                     \
                                      const LayerOutputs<T>&, const Execution&) const;                              \
  template Tensor<T, 3> Encoder<T>::forward(const EncoderInputs&, std::span<const LayerTrace<T>>, const Execution&) \
      const;
HEADWISE_ENCODER(float)
HEADWISE_ENCODER(double)
#undef HEADWISE_ENCODER

}  // namespace headwise
