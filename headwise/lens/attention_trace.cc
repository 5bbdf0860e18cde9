// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/attention_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/kernels/attention.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// A view with an axis of length 1 in front: one sentence as a batch.
template <class T, int Rank>
TensorView<T, Rank + 1> as_batch(const TensorView<T, Rank>& view) {
  Shape<Rank + 1> shape{1}, strides{0};
  for (int axis = 0; axis < Rank; ++axis) {
    shape[axis + 1] = view.size(axis);
    strides[axis + 1] = view.stride(axis);
  }
  return {view.data(), shape, strides};
}

void check_sequence(const TokenSequence& sequence, std::size_t number) {
  if (sequence.ids.empty()) throw ArgumentError(fmt::format("trace: sentence {} has no ids", number));
  if (sequence.tokens.empty() || sequence.tokens.size() == sequence.ids.size()) return;
  throw ArgumentError(
      fmt::format("trace: sentence {} has {} ids and {} tokens", number, sequence.ids.size(), sequence.tokens.size()));
}

void run_model(const Encoder<float>& encoder, TensorView<const std::int64_t, 2> ids,
               std::span<const LayerTrace<float>> traces, const Execution& execution) {
  EncoderInputs inputs;
  inputs.ids = ids;
  encoder.forward(inputs, traces, execution);
}

void run_model(const Decoder<float>& decoder, TensorView<const std::int64_t, 2> ids,
               std::span<const LayerTrace<float>> traces, const Execution& execution) {
  decoder.forward(ids, {}, nullptr, traces, execution);
}

template <class Model>
TracedSentence trace_sentence(const Model& model, const TokenSequence& sequence, const Execution& execution) {
  const Index heads = model.config().heads, seq = static_cast<Index>(sequence.ids.size());
  TracedSentence traced{sequence.ids, sequence.tokens, {}};
  if (traced.tokens.empty()) {
    for (const std::int64_t id : traced.ids) traced.tokens.push_back(std::to_string(id));
  }
  std::vector<LayerTrace<float>> wanted;
  for (Index layer = 0; layer < model.config().layers; ++layer) {
    const Shape<3> shape{heads, seq, model.head_dim()};
    traced.layers.push_back({Tensor<float, 3>(shape), Tensor<float, 3>(shape)});
    LayerTrace<float> trace;
    trace.layer = layer;
    trace.attention.queries = as_batch(traced.layers.back().queries.view());
    trace.attention.keys = as_batch(traced.layers.back().keys.view());
    wanted.push_back(trace);
  }
  run_model(model, {traced.ids.data(), {1, seq}}, wanted, execution);
  return traced;
}

template <class Model>
AttentionTrace trace_model(const Model& model, bool causal, std::span<const TokenSequence> sentences,
                           const Execution& execution) {
  for (std::size_t i = 0; i < sentences.size(); ++i) check_sequence(sentences[i], i);
  AttentionTrace trace;
  trace.layers = model.config().layers;
  trace.heads = trace.kv_heads = model.config().heads;
  trace.head_dim = model.head_dim();
  trace.causal = causal;
  for (const TokenSequence& sentence : sentences) trace.sentences.push_back(trace_sentence(model, sentence, execution));
  return trace;
}

// The queries and keys of heads [begin, end) with values of no width: scores and softmax, and nothing to add up.
void recompute(const AttentionTrace& trace, const TracedLayer& layer, Index begin, Index end,
               AttentionOutputs<float> outputs, const Execution& execution) {
  const Index heads = end - begin, group = trace.heads / trace.kv_heads, seq = layer.queries.size(1);
  const Tensor<float, 4> values(Shape<4>{1, heads, seq, 0});
  Tensor<float, 4> context(Shape<4>{1, heads, seq, 0});
  AttentionProblem<float> problem;
  problem.inputs.queries = as_batch(layer.queries.view().slice(0, begin, end));
  // One head, or all of them: then the keys of every group.
  const bool all = heads == trace.heads;
  problem.inputs.keys =
      as_batch(all ? layer.keys.view() : layer.keys.view().slice(0, begin / group, begin / group + 1));
  problem.inputs.values = values.view().slice(1, 0, all ? trace.kv_heads : 1);
  problem.visibility.causal = trace.causal;
  outputs.context = context.view();
  attention_forward(problem, outputs, execution);
}

const TracedLayer& layer_of(const AttentionTrace& trace, Index sentence, Index layer) {
  const auto check = [](const char* name, Index index, std::size_t count) {
    if (index >= 0 && index < static_cast<Index>(count)) return;
    throw ArgumentError(fmt::format("trace: {} must be in 0..{}, got {}", name, static_cast<Index>(count) - 1, index));
  };
  check("sentence", sentence, trace.sentences.size());
  check("layer", layer, trace.sentences[sentence].layers.size());
  return trace.sentences[sentence].layers[layer];
}

}  // namespace

AttentionTrace trace_encoder(const Encoder<float>& encoder, std::span<const TokenSequence> sentences,
                             const Execution& execution) {
  return trace_model(encoder, false, sentences, execution);
}

AttentionTrace trace_decoder(const Decoder<float>& decoder, std::span<const TokenSequence> sentences,
                             const Execution& execution) {
  return trace_model(decoder, true, sentences, execution);
}

bool is_separator(std::string_view token) {
  constexpr std::string_view kSeparators[] = {"[SEP]", "</s>", "<|endoftext|>", "<sep>"};
  return std::find(std::begin(kSeparators), std::end(kSeparators), token) != std::end(kSeparators);
}

void recompute_weights(const AttentionTrace& trace, Index sentence, Index layer, TensorView<float, 3> weights,
                       const Execution& execution) {
  AttentionOutputs<float> outputs;
  outputs.weights = as_batch(weights);
  recompute(trace, layer_of(trace, sentence, layer), 0, trace.heads, outputs, execution);
}

Tensor<float, 2> head_weights(const AttentionTrace& trace, Index sentence, Index layer, Index head,
                              const Execution& execution) {
  const TracedLayer& traced = layer_of(trace, sentence, layer);
  if (head < 0 || head >= trace.heads) {
    throw ArgumentError(fmt::format("trace: head must be in 0..{}, got {}", trace.heads - 1, head));
  }
  const Index seq = traced.queries.size(1);
  Tensor<float, 2> weights(Shape<2>{seq, seq});
  AttentionOutputs<float> outputs;
  outputs.weights = as_batch(as_batch(weights.view()));
  recompute(trace, traced, head, head + 1, outputs, execution);
  return weights;
}

void recompute_statistics(const AttentionTrace& trace, Index sentence, Index layer,
                          const AttentionStatistics<float>& statistics, const Execution& execution) {
  AttentionOutputs<float> outputs;
  outputs.statistics = statistics;
  recompute(trace, layer_of(trace, sentence, layer), 0, trace.heads, outputs, execution);
}

}  // namespace headwise
