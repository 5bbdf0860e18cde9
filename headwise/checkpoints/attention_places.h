// SPDX-License-Identifier: Apache-2.0
// Where in a checkpoint attention layers lie, and which rules their names and shapes allow. Not installed.
#ifndef HEADWISE_CHECKPOINTS_ATTENTION_PLACES_H_
#define HEADWISE_CHECKPOINTS_ATTENTION_PLACES_H_

#include <optional>
#include <string>
#include <vector>

#include "headwise/checkpoints/attention_rules.h"
#include "headwise/io/safetensors_set.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct AttentionPlace {
  std::string prefix;           // in front of every name of the layer, with its dot; empty where they stand alone
  std::optional<Index> number;  // as its name counts it
  std::vector<const AttentionRule*> rules;  // that the names allow; one at least

  // "encoder.layer.3.attention"; "" where the names stand alone.
  std::string name() const { return prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1); }
};

// In the order of their names, numbers counted as numbers. A layer whose names are incomplete is listed too:
// read_attention_shapes says what is missing.
std::vector<AttentionPlace> find_attention(const SafetensorsSet& set);

// Sizes and parts of one layer as its tensors have them under one rule.
struct AttentionShapes {
  Index d_in = 0, d_out = 0;  // d_out: width of the layer's output
  Index query_rows = 0, key_rows = 0;
  bool qkv_bias = false, out_proj = false, out_bias = false, query_key_norm = false;
  Index named_heads = 0;  // where the names count them
  Index parameters = 0;
};

// Throws FileError that names the tensor which is missing, has another shape than the rule says, or is one that the
// rule does not know.
AttentionShapes read_attention_shapes(const SafetensorsSet& set, const AttentionPlace& place,
                                      const AttentionRule& rule);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_ATTENTION_PLACES_H_
