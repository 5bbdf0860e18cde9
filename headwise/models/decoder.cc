// SPDX-License-Identifier: Apache-2.0
// Construction, initial weights, names. Forward, backward and decoding have files of their own.
#include "headwise/models/decoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "headwise/kernels/row_statistics.h"
#include "headwise/models/half_turns.h"
#include "headwise/models/random_streams.h"

namespace headwise {
namespace {

AttentionConfig attention_config(const DecoderConfig& decoder, Gradients gradients) {
  AttentionConfig config;
  config.who = "Decoder attention";
  config.d_in = config.d_out = decoder.hidden;
  config.num_heads = decoder.heads;
  config.context_length = decoder.positions;
  config.dropout = decoder.dropout;
  config.causal = true;
  config.set_qkv_bias(decoder.bias);
  config.out_bias = decoder.bias;
  config.gradients = gradients;
  return config;
}

const DecoderConfig& checked(const DecoderConfig& config) {
  check_config(config);
  return config;
}

// Box and Muller: a pair of normal values for each pair of elements.
template <class T>
void draw_normal(std::uint64_t seed, std::uint32_t parameter, double deviation, std::span<T> values) {
  for (std::size_t n = 0; n < values.size(); n += 2) {
    const auto words = draw_from(RandomStream::kWeights, seed, n / 2, parameter);
    const double radius = std::sqrt(-2 * canonical_log(1 - unit_interval(words[0], words[1]))) * deviation;
    const double half_turns = 2 * unit_interval(words[2], words[3]);
    values[n] = static_cast<T>(radius * cos_half_turns(half_turns));
    if (n + 1 < values.size()) values[n + 1] = static_cast<T>(radius * sin_half_turns(half_turns));
  }
}

}  // namespace

template <class T>
Decoder<T>::Decoder(const DecoderConfig& config, Gradients gradients)
    : config_(checked(config)),
      gradients_(gradients),
      words_(config.hidden, config.vocab, false, gradients),
      positions_(config.hidden, config.positions, false, gradients),
      last_norm_(config.hidden, config.layer_norm_eps, config.bias, gradients) {
  const LayerNorm<T> norm = last_norm_;
  for (Index layer = 0; layer < config.layers; ++layer) {
    blocks_.push_back({norm, AttentionLayer<T>(attention_config(config, gradients), {}), norm,
                       Linear<T>(config.hidden, config.feed_forward(), config.bias, gradients),
                       Linear<T>(config.feed_forward(), config.hidden, config.bias, gradients)});
  }
  if (!config.tied) head_ = Linear<T>(config.hidden, config.vocab, false, gradients);
}

template <class T>
void Decoder<T>::initialize(std::uint64_t seed) {
  const double deviation = 0.02, back = deviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
  std::uint32_t number = 0;
  for (const Parameter<T>& parameter : parameters()) {
    const bool onto_residual = parameter.name.ends_with("c_proj.weight");
    if (parameter.shape.size() == 2) {
      draw_normal(seed, number, onto_residual ? back : deviation, parameter.values());
    } else {
      std::fill_n(parameter.value, parameter.elements(), parameter.name.ends_with(".weight") ? T{1} : T{0});
    }
    ++number;
  }
}

template <class T>
std::vector<Parameter<T>> Decoder<T>::parameters() {
  std::vector<Parameter<T>> result;
  words_.append_parameters("transformer.wte", words_.all_rows(), false, result);
  result.back().axes = {"vocab", "hidden"};
  positions_.append_parameters("transformer.wpe", positions_.all_rows(), false, result);
  result.back().axes = {"positions", "hidden"};
  for (Index layer = 0; layer < config_.layers; ++layer) {
    Block& block = blocks_[layer];
    const std::string name = "transformer.h." + std::to_string(layer) + ".";
    Linear<T>&qkv = block.attention.qkv(), &out = block.attention.out_proj();
    block.norm_1.append_parameters(name + "ln_1", result);
    qkv.append_parameters(name + "attn.c_attn", qkv.all_rows(), true, result);
    out.append_parameters(name + "attn.c_proj", out.all_rows(), true, result);
    block.norm_2.append_parameters(name + "ln_2", result);
    block.wide.append_parameters(name + "mlp.c_fc", block.wide.all_rows(), true, result);
    block.narrow.append_parameters(name + "mlp.c_proj", block.narrow.all_rows(), true, result);
  }
  last_norm_.append_parameters("transformer.ln_f", result);
  if (!config_.tied) head_.append_parameters("lm_head", head_.all_rows(), false, result);
  return result;
}

template <class T>
Index Decoder<T>::parameter_count() {
  Index count = 0;
  for (const Parameter<T>& parameter : parameters()) count += parameter.elements();
  return count;
}

template <class T>
void Decoder<T>::zero_grad() {
  for (const Parameter<T>& parameter : parameters()) {
    if (parameter.gradient != nullptr) std::fill_n(parameter.gradient, parameter.elements(), T{});
  }
}

template <class T>
void Decoder<T>::load(std::span<const NamedTensor> tensors) {
  LoadRules rules{"", stored_mask_names()};
  if (config_.tied) rules.ignored.push_back("lm_head.weight");
  load_parameters<T>("Decoder.load", parameters(), tensors, rules);
}

template <class T>
std::vector<NamedTensor> Decoder<T>::state() {
  return named_tensors<T>(parameters());
}

template class Decoder<float>;
template class Decoder<double>;

}  // namespace headwise
