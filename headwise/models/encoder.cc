// SPDX-License-Identifier: Apache-2.0
// Construction and names; the forward has a file of its own.
#include "headwise/models/encoder.h"

#include <string>
#include <utility>

namespace headwise {
namespace {

std::string layer_name(Index layer) { return "encoder.layer." + std::to_string(layer) + "."; }

AttentionConfig attention_config(const EncoderConfig& encoder) {
  AttentionConfig config;
  config.who = "Encoder attention";
  config.d_in = config.d_out = encoder.hidden;
  config.num_heads = encoder.heads;
  config.set_qkv_bias(true);
  config.gradients = Gradients::kNone;
  return config;
}

ProjectionNames projection_names(Index layer) {
  const std::string attention = layer_name(layer) + "attention.";
  return {attention + "self.query", attention + "self.key", attention + "self.value", attention + "output.dense"};
}

const EncoderConfig& checked(const EncoderConfig& config) {
  check_config(config);
  return config;
}

template <class T>
void append_table(const char* name, Tensor<T, 2>& table, const char* rows, std::vector<Parameter<T>>& out) {
  out.push_back({name, {table.size(0), table.size(1)}, table.data(), nullptr, {rows, "hidden"}});
}

}  // namespace

template <class T>
Encoder<T>::Encoder(const EncoderConfig& config)
    : config_(checked(config)),
      words_(Shape<2>{config.vocab, config.hidden}),
      positions_(Shape<2>{config.positions, config.hidden}),
      types_(Shape<2>{config.type_vocab, config.hidden}),
      embedding_norm_(config.hidden, config.layer_norm_eps) {
  const LayerNorm<T> norm(config.hidden, config.layer_norm_eps);
  for (Index layer = 0; layer < config.layers; ++layer) {
    blocks_.push_back({AttentionLayer<T>(attention_config(config), projection_names(layer)), norm,
                       Linear<T>(config.hidden, config.intermediate, true, Gradients::kNone),
                       Linear<T>(config.intermediate, config.hidden, true, Gradients::kNone), norm});
  }
}

template <class T>
std::vector<Parameter<T>> Encoder<T>::parameters() {
  std::vector<Parameter<T>> result;
  append_table("embeddings.word_embeddings.weight", words_, "vocab", result);
  append_table("embeddings.position_embeddings.weight", positions_, "positions", result);
  append_table("embeddings.token_type_embeddings.weight", types_, "type_vocab", result);
  embedding_norm_.append_parameters("embeddings.LayerNorm", result);
  for (Index layer = 0; layer < config_.layers; ++layer) {
    Block& block = blocks_[layer];
    const std::string name = layer_name(layer);
    for (Parameter<T>& parameter : block.attention.parameters()) result.push_back(std::move(parameter));
    block.attention_norm.append_parameters(name + "attention.output.LayerNorm", result);
    block.intermediate.append_parameters(name + "intermediate.dense", block.intermediate.all_rows(), true, result);
    block.output.append_parameters(name + "output.dense", block.output.all_rows(), true, result);
    block.output_norm.append_parameters(name + "output.LayerNorm", result);
  }
  return result;
}

template <class T>
Index Encoder<T>::parameter_count() {
  Index count = 0;
  for (const Parameter<T>& parameter : parameters()) count += parameter.elements();
  return count;
}

template <class T>
void Encoder<T>::load(std::span<const NamedTensor> tensors) {
  load_parameters<T>("Encoder.load", parameters(), tensors,
                     {"bert.", {"pooler.*", "cls.*", "embeddings.position_ids"}});
}

template <class T>
std::vector<NamedTensor> Encoder<T>::state() {
  return named_tensors<T>(parameters());
}

template class Encoder<float>;
template class Encoder<double>;

}  // namespace headwise
