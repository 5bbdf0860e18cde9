// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

std::string output_weight(const Encoder<float>&, Index layer) {
  return fmt::format("encoder.layer.{}.attention.output.dense.weight", layer);
}
std::string output_weight(const Decoder<float>&, Index layer) {
  return fmt::format("transformer.h.{}.attn.c_proj.weight", layer);
}

Tensor<float, 3> output_of(const Encoder<float>& model, TensorView<const std::int64_t, 2> ids,
                           const Execution& execution) {
  return model.forward({ids}, {}, execution);
}
Tensor<float, 3> output_of(const Decoder<float>& model, TensorView<const std::int64_t, 2> ids,
                           const Execution& execution) {
  return model.forward(ids, {}, nullptr, {}, execution);
}

template <class Model>
void check_scale(const Model& model, const HeadScale& scale) {
  const auto& config = model.config();
  const std::pair<const char*, std::pair<Index, Index>> places[] = {{"layer", {scale.layer, config.layers}},
                                                                    {"head", {scale.head, config.heads}}};
  for (const auto& [name, place] : places) {
    if (place.first >= 0 && place.first < place.second) continue;
    throw ArgumentError(fmt::format("ablation: {} must be in 0..{}, got {}", name, place.second - 1, place.first));
  }
  if (!std::isfinite(scale.scale))
    throw ArgumentError(fmt::format("ablation: scale must be finite, got {}", scale.scale));
}

// The matrix (hidden, heads * head_dim) behind a layer's heads.
template <class Model>
Parameter<float> output_matrix(Model& model, Index layer) {
  const std::string name = output_weight(model, layer);
  for (const Parameter<float>& parameter : model.parameters()) {
    if (parameter.name == name) return parameter;
  }
  throw StateError("ablation: the model has no " + name);
}

template <class Model>
void scale_all(Model& model, std::span<const HeadScale> scales) {
  for (const HeadScale& one : scales) check_scale(model, one);
  for (const HeadScale& one : scales) {
    const Parameter<float> matrix = output_matrix(model, one.layer);
    const Index columns = matrix.shape[1], width = columns / model.config().heads;
    for (Index row = 0; row < matrix.shape[0]; ++row) {
      float* first = matrix.value + row * columns + one.head * width;
      for (Index i = 0; i < width; ++i) first[i] *= static_cast<float>(one.scale);
    }
  }
}

// Puts the matrices back, whatever happens.
template <class Model>
class Changed {
 public:
  Changed(Model& model, std::span<const HeadScale> scales) {
    for (const HeadScale& one : scales) check_scale(model, one);
    for (const HeadScale& one : scales) {
      const Parameter<float> matrix = output_matrix(model, one.layer);
      const auto values = matrix.values();
      kept_.emplace_back(matrix, std::vector<float>(values.begin(), values.end()));
    }
    scale_all(model, scales);
  }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;
  // In reverse: of a layer named twice the first copy is the unchanged one.
  ~Changed() {
    for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
      std::copy(it->second.begin(), it->second.end(), it->first.value);
    }
  }

 private:
  std::vector<std::pair<Parameter<float>, std::vector<float>>> kept_;
};

template <class Model>
std::vector<Tensor<float, 3>> outputs_of(const Model& model, std::span<const TokenSequence> sentences,
                                         const Execution& execution) {
  std::vector<Tensor<float, 3>> outputs;
  for (const TokenSequence& sentence : sentences) {
    const TensorView<const std::int64_t, 2> ids(sentence.ids.data(), {1, static_cast<Index>(sentence.ids.size())});
    outputs.push_back(output_of(model, ids, execution));
  }
  return outputs;
}

double distance(const std::vector<Tensor<float, 3>>& changed, const std::vector<Tensor<float, 3>>& unchanged) {
  double difference = 0, size = 0;
  for (std::size_t n = 0; n < unchanged.size(); ++n) {
    for (Index i = 0; i < unchanged[n].elements(); ++i) {
      const double value = unchanged[n].data()[i], gap = static_cast<double>(changed[n].data()[i]) - value;
      difference += gap * gap;
      size += value * value;
    }
  }
  return size == 0 ? 0 : std::sqrt(difference / size);
}

template <class Model>
double effect(Model& model, std::span<const TokenSequence> sentences, std::span<const HeadScale> scales,
              const std::vector<Tensor<float, 3>>& unchanged, const Execution& execution) {
  const Changed<Model> changed(model, scales);
  return distance(outputs_of(model, sentences, execution), unchanged);
}

template <class Model>
std::vector<HeadEffect> rank(Model& model, std::span<const TokenSequence> sentences, const Execution& execution) {
  const std::vector<Tensor<float, 3>> unchanged = outputs_of(model, sentences, execution);
  std::vector<HeadEffect> effects;
  for (Index layer = 0; layer < model.config().layers; ++layer) {
    for (Index head = 0; head < model.config().heads; ++head) {
      if (execution.cancelled()) throw Cancelled();
      const HeadScale off[] = {{layer, head, 0}};
      effects.push_back({layer, head, effect(model, sentences, off, unchanged, execution)});
    }
  }
  std::stable_sort(effects.begin(), effects.end(),
                   [](const HeadEffect& a, const HeadEffect& b) { return a.effect > b.effect; });
  return effects;
}

}  // namespace

void scale_heads(Encoder<float>& encoder, std::span<const HeadScale> scales) { scale_all(encoder, scales); }
void scale_heads(Decoder<float>& decoder, std::span<const HeadScale> scales) { scale_all(decoder, scales); }

double effect_of(Encoder<float>& encoder, std::span<const TokenSequence> sentences, std::span<const HeadScale> scales,
                 const Execution& execution) {
  return effect(encoder, sentences, scales, outputs_of(encoder, sentences, execution), execution);
}
double effect_of(Decoder<float>& decoder, std::span<const TokenSequence> sentences, std::span<const HeadScale> scales,
                 const Execution& execution) {
  return effect(decoder, sentences, scales, outputs_of(decoder, sentences, execution), execution);
}

std::vector<HeadEffect> rank_heads(Encoder<float>& encoder, std::span<const TokenSequence> sentences,
                                   const Execution& execution) {
  return rank(encoder, sentences, execution);
}
std::vector<HeadEffect> rank_heads(Decoder<float>& decoder, std::span<const TokenSequence> sentences,
                                   const Execution& execution) {
  return rank(decoder, sentences, execution);
}

}  // namespace headwise
