// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/multi_head_attention_wrapper.h"

#include <fmt/format.h>

#include <algorithm>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr const char* kWho = "MultiHeadAttentionWrapper";

ProjectionNames per_head_names() {
  ProjectionNames names;
  names.per_head = true;
  return names;
}

AttentionConfig stacked_heads(Index d_in, Index total_width, Index num_heads, const WrapperOptions& options) {
  AttentionConfig config;
  config.who = kWho;
  config.d_in = d_in;
  config.d_out = total_width;
  config.num_heads = num_heads;
  config.context_length = options.context_length;
  config.dropout = options.dropout;
  config.causal = true;
  config.set_qkv_bias(options.qkv_bias);
  config.out_proj = options.out_proj;
  return config;
}

}  // namespace

template <class T>
MultiHeadAttentionWrapper<T>::MultiHeadAttentionWrapper(const AttentionConfig& config,
                                                        std::optional<std::uint64_t> seed)
    : AttentionLayer<T>(config, per_head_names()) {
  this->initialize(Initialization::kTorchLinear, seed_or_fresh(seed));
}

template <class T>
MultiHeadAttentionWrapper<T>::MultiHeadAttentionWrapper(const AttentionLayer<T>& source)
    : AttentionLayer<T>(source, kWho, per_head_names()) {}

template <class T>
MultiHeadAttentionWrapper<T> MultiHeadAttentionWrapper<T>::with_head_width(Index d_in, Index d_out, Index num_heads,
                                                                           const WrapperOptions& options) {
  check_width(kWho, "d_out", d_out);
  check_width(kWho, "num_heads", num_heads);
  check_width(kWho, "num_heads * d_out", num_heads * d_out);
  return {stacked_heads(d_in, num_heads * d_out, num_heads, options), options.seed};
}

template <class T>
MultiHeadAttentionWrapper<T> MultiHeadAttentionWrapper<T>::with_total_width(Index d_in, Index d_out, Index num_heads,
                                                                            const WrapperOptions& options) {
  return {stacked_heads(d_in, d_out, num_heads, options), options.seed};
}

template <class T>
CausalSelfAttention<T> MultiHeadAttentionWrapper<T>::head(Index index) const {
  const AttentionConfig& config = this->config();
  const AttentionSizes& sizes = this->sizes();
  if (index < 0 || index >= sizes.heads) {
    throw ArgumentError(fmt::format("{}.head: index must be in 0..{}, got {}", kWho, sizes.heads - 1, index));
  }
  if (!config.causal) throw ArgumentError(fmt::format("{}.head: the heads are not causal", kWho));
  CausalSelfAttention<T> head(config.d_in, sizes.head_dim, config.context_length, config.dropout, config.query_bias,
                              this->seed());
  MultiHeadAttentionWrapper source = *this;
  const auto all = source.parameters();
  const auto own = head.parameters();
  for (std::size_t i = 0; i < own.size(); ++i) {  // every head has the same parameters in the same order
    const auto values = all[index * own.size() + i].values();
    std::copy(values.begin(), values.end(), own[i].value);
  }
  return head;
}

template <class T>
MultiHeadAttention<T> MultiHeadAttentionWrapper<T>::fuse() const {
  return MultiHeadAttention<T>(*this);
}

template class MultiHeadAttentionWrapper<float>;
template class MultiHeadAttentionWrapper<double>;

}  // namespace headwise
