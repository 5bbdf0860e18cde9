// SPDX-License-Identifier: Apache-2.0
// Construction, initial weights, names. Forward and backward have files of their own.
#include "headwise/layers/attention_layer.h"

#include <utility>

namespace headwise {
namespace {

// One named matrix of the stacked projection.
struct NamedRows {
  std::string name;
  RowRange rows;
  bool bias;
};

// In the order in which the book's classes construct them, which is also that of their state_dict.
std::vector<NamedRows> named_rows(const AttentionConfig& config, const AttentionSizes& sizes,
                                  const ProjectionNames& names) {
  const NamedRows whole[] = {{names.query, sizes.query_rows(), config.query_bias},
                             {names.key, sizes.key_rows(), config.key_bias},
                             {names.value, sizes.value_rows(), config.value_bias}};
  if (!names.per_head) return {std::begin(whole), std::end(whole)};
  std::vector<NamedRows> result;
  for (Index head = 0; head < sizes.heads; ++head) {
    for (const NamedRows& part : whole) {
      result.push_back({"heads." + std::to_string(head) + "." + part.name,
                        {part.rows.first + head * sizes.head_dim, sizes.head_dim},
                        part.bias});
    }
  }
  return result;
}

template <class T>
void clear(std::span<T> values) {
  for (T& value : values) value = T{};
}

}  // namespace

template <class T>
AttentionLayer<T>::AttentionLayer(const AttentionConfig& config, ProjectionNames names)
    : config_(config),
      sizes_(check_config(config)),
      names_(std::move(names)),
      qkv_(config.d_in, sizes_.stacked_rows(), config.query_bias || config.key_bias || config.value_bias,
           config.gradients) {
  if (config.out_proj) out_proj_ = Linear<T>(sizes_.query_width(), config.d_out, config.out_bias, config.gradients);
  if (!config.query_key_norm) return;
  const QueryKeyNorm& norm = *config.query_key_norm;
  query_norm_ = {norm.whole ? sizes_.query_width() : sizes_.head_dim, norm.eps, config.gradients};
  key_norm_ = {norm.whole ? sizes_.kv_width() : sizes_.head_dim, norm.eps, config.gradients};
}

template <class T>
AttentionLayer<T>::AttentionLayer(const AttentionLayer& source, std::string who, ProjectionNames names)
    : AttentionLayer(source) {
  config_.who = std::move(who);
  names_ = std::move(names);
}

template <class T>
void AttentionLayer<T>::initialize(Initialization initialization, std::uint64_t seed) {
  seed_ = seed;
  query_norm_.fill_ones();
  key_norm_.fill_ones();
  TorchGenerator generator(seed);
  const RowRange all = qkv_.all_rows();
  const auto draw_out_proj = [&] {
    if (!config_.out_proj) return;
    const RowRange rows = out_proj_.all_rows();
    draw_torch_linear(generator, out_proj_.d_in(), out_proj_.weight_values(rows), out_proj_.bias_values(rows));
  };
  const auto clear_biases = [&] {
    clear(qkv_.bias_values(all));
    if (config_.out_proj) clear(out_proj_.bias_values(out_proj_.all_rows()));
  };
  switch (initialization) {
    case Initialization::kTorchLinear:
      for (const NamedRows& part : named_rows(config_, sizes_, names_)) {
        draw_torch_linear(generator, config_.d_in, qkv_.weight_values(part.rows),
                          part.bias ? qkv_.bias_values(part.rows) : std::span<T>{});
      }
      draw_out_proj();
      break;
    case Initialization::kTorchMha:  // its constructor makes the output projection first
      draw_out_proj();
      draw_xavier_uniform(generator, config_.d_in, all.count, qkv_.weight_values(all));
      clear_biases();
      break;
    case Initialization::kGpt2:
      for (const NamedRows& part : named_rows(config_, sizes_, names_)) {
        draw_gpt2(generator, qkv_.weight_values(part.rows));
      }
      if (config_.out_proj) draw_gpt2(generator, out_proj_.weight_values(out_proj_.all_rows()));
      clear_biases();
      break;
  }
}

template <class T>
std::vector<Parameter<T>> AttentionLayer<T>::parameters() {
  std::vector<Parameter<T>> result;
  for (const NamedRows& part : named_rows(config_, sizes_, names_)) {
    qkv_.append_parameters(part.name, part.rows, part.bias, result);
  }
  if (config_.out_proj) out_proj_.append_parameters(names_.out, out_proj_.all_rows(), config_.out_bias, result);
  if (query_norm_) query_norm_.append_parameters(names_.query_norm, result);
  if (key_norm_) key_norm_.append_parameters(names_.key_norm, result);
  return result;
}

template <class T>
Index AttentionLayer<T>::parameter_count() const {
  Index count = 0;
  for (const NamedRows& part : named_rows(config_, sizes_, names_)) {
    count += part.rows.count * (config_.d_in + (part.bias ? 1 : 0));
  }
  if (config_.out_proj) count += config_.d_out * (sizes_.query_width() + (config_.out_bias ? 1 : 0));
  if (config_.query_key_norm) {
    count += config_.query_key_norm->whole ? sizes_.query_width() + sizes_.kv_width() : 2 * sizes_.head_dim;
  }
  return count;
}

template <class T>
void AttentionLayer<T>::zero_grad() {
  qkv_.zero_grad();
  out_proj_.zero_grad();
  query_norm_.zero_grad();
  key_norm_.zero_grad();
}

template <class T>
void AttentionLayer<T>::load(std::span<const NamedTensor> tensors) {
  load_parameters<T>(config_.who + ".load", parameters(), tensors, {"", stored_mask_names()});
}

template <class T>
std::vector<NamedTensor> AttentionLayer<T>::state() {
  return named_tensors<T>(parameters());
}

template class AttentionLayer<float>;
template class AttentionLayer<double>;

}  // namespace headwise
