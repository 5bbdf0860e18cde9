// SPDX-License-Identifier: Apache-2.0
// One attention layer in a safetensors file: its state_dict, and as metadata what the weights do not say.
#ifndef HEADWISE_CHECKPOINTS_LAYER_FILE_H_
#define HEADWISE_CHECKPOINTS_LAYER_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "headwise/checkpoints/layer_facts.h"
#include "headwise/layers/causal_self_attention.h"
#include "headwise/layers/multi_head_attention.h"
#include "headwise/layers/multi_head_attention_layer.h"
#include "headwise/layers/multi_head_attention_wrapper.h"

namespace headwise {

template <class T>
using AnyLayer = std::variant<MultiHeadAttention<T>, CausalSelfAttention<T>, MultiHeadAttentionWrapper<T>,
                              MultiHeadAttentionLayer<T>>;

// The file appears whole or not at all. Throws as OutputFile does.
template <class T>
void save_layer(const std::string& path, AnyLayer<T>& layer);

// A layer as save_layer wrote it, or as somebody's state_dict with the same names; stored masks are passed over. Facts
// that the file does not store must be given: the kind (where the names leave it open), num_heads, causal, dropout; a
// context_length in neither place means no limit. A given dropout, context_length or seed rules over the stored one; a
// kind, num_heads, causal, rotary or window_left that differs is an error. Narrower types widen exactly; nothing
// narrows. Throws FileNotFound, FileError naming the file and the tensor, or ArgumentError naming the fact.
template <class T>
AnyLayer<T> load_layer(const std::string& path, const LayerFacts& given = {});

// The same as bytes in memory, for whoever keeps them elsewhere than in a file of their own. `name` is for messages.
template <class T>
std::string pack_layer(AnyLayer<T>& layer);
template <class T>
AnyLayer<T> unpack_layer(std::string_view name, std::span<const std::byte> bytes);

// The narrowest type of a layer that holds the file's weights: float64 for float64, float32 for float32, float16 and
// bfloat16. Throws FileError for any other, or a mixture of the two.
DType layer_file_dtype(const std::string& path);

extern template void save_layer(const std::string&, AnyLayer<float>&);
extern template void save_layer(const std::string&, AnyLayer<double>&);
extern template std::string pack_layer(AnyLayer<float>&);
extern template std::string pack_layer(AnyLayer<double>&);
extern template AnyLayer<float> unpack_layer(std::string_view, std::span<const std::byte>);
extern template AnyLayer<double> unpack_layer(std::string_view, std::span<const std::byte>);
extern template AnyLayer<float> load_layer(const std::string&, const LayerFacts&);
extern template AnyLayer<double> load_layer(const std::string&, const LayerFacts&);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_LAYER_FILE_H_
