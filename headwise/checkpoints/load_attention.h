// SPDX-License-Identifier: Apache-2.0
// An attention layer out of anybody's checkpoint: seed's, the book's, torch's, GPT-2's, BERT's, Llama's, ViT's and
// more.
#ifndef HEADWISE_CHECKPOINTS_LOAD_ATTENTION_H_
#define HEADWISE_CHECKPOINTS_LOAD_ATTENTION_H_

#include <string>

#include "headwise/checkpoints/attention_choice.h"
#include "headwise/checkpoints/layer_facts.h"
#include "headwise/checkpoints/layer_file.h"

namespace headwise {

// path: a safetensors file, a model.safetensors.index.json, or a folder with one of them. float16 and bfloat16 widen
// exactly, float32 into a double layer too; nothing narrows.
//
// A file that holds one layer under headwise's own names is read as load_layer does. Otherwise the family is what the
// names and shapes, config.json beside the file, the metadata or the choice leave, never a guess; num_heads and causal
// come from there too, or from `given`. A dropout that is nowhere is 0.
//
// Throws FileNotFound; FileError naming the file and the tensor or key; ArgumentError naming the fact that is missing
// or contradicts, or the layers or families to choose from.
template <class T>
AnyLayer<T> load_attention(const std::string& path, const AttentionChoice& choice = {}, const LayerFacts& given = {});

// The narrowest type of a layer that holds these weights: float32 or float64. Throws the same.
DType attention_dtype(const std::string& path, const AttentionChoice& choice = {});

extern template AnyLayer<float> load_attention(const std::string&, const AttentionChoice&, const LayerFacts&);
extern template AnyLayer<double> load_attention(const std::string&, const AttentionChoice&, const LayerFacts&);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_LOAD_ATTENTION_H_
