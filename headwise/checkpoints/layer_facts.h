// SPDX-License-Identifier: Apache-2.0
// What a layer is beyond its weights: facts that a file stores as metadata and a call may give.
#ifndef HEADWISE_CHECKPOINTS_LAYER_FACTS_H_
#define HEADWISE_CHECKPOINTS_LAYER_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "headwise/layers/query_key_norm.h"
#include "headwise/layers/rotary_rule.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

enum class LayerKind : std::uint8_t {
  kMultiHeadAttention,
  kCausalSelfAttention,
  kMultiHeadAttentionWrapper,
  kMultiHeadAttentionLayer,
};

// "MultiHeadAttention", ...: the name of its class.
std::string_view layer_kind_name(LayerKind kind);
// Throws ArgumentError that lists the names.
LayerKind parse_layer_kind(std::string_view name);

// Sizes and biases are not among them: the shapes and names of the tensors say those.
struct LayerFacts {
  std::optional<LayerKind> kind{};
  std::optional<Index> num_heads{};
  std::optional<bool> causal{};
  std::optional<double> dropout{};
  std::optional<Index> context_length{};
  std::optional<std::uint64_t> seed{};  // of the dropout masks
  // The last three: of MultiHeadAttention alone, as in AttentionConfig.
  std::optional<QueryKeyNorm> query_key_norm{};
  std::optional<RotaryRule> rotary{};
  std::optional<Index> window_left{};
};

// The metadata of a safetensors file, and back. Throws FileError for a value that is no such fact; `path` is for it.
std::map<std::string, std::string> to_metadata(const LayerFacts& facts);
LayerFacts facts_from_metadata(std::string_view path, const std::map<std::string, std::string>& metadata);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_LAYER_FACTS_H_
