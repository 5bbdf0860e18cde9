// SPDX-License-Identifier: Apache-2.0
// The weights of one layer out of any layout, and into any other; every value keeps its bits. Not installed.
#ifndef HEADWISE_CHECKPOINTS_ATTENTION_STATE_H_
#define HEADWISE_CHECKPOINTS_ATTENTION_STATE_H_

#include <optional>
#include <string>
#include <vector>

#include "headwise/checkpoints/attention_places.h"
#include "headwise/checkpoints/tensor_blocks.h"

namespace headwise {

// Queries, keys, values: matrices (out, in) and biases (out,), in the file's own type.
class AttentionState {
 public:
  // Borrows from the set what need not be copied. `shapes` as read_attention_shapes gave them for this place and rule.
  // Throws FileError for a type that no weight has, or a mixture where parts lie in one matrix.
  AttentionState(const SafetensorsSet& set, const AttentionPlace& place, const AttentionRule& rule,
                 const AttentionShapes& shapes);

  bool has_qkv_bias() const { return biases_[0].has_value(); }
  bool has_out_proj() const { return out_.has_value(); }
  bool has_out_bias() const { return out_bias_.has_value(); }
  // Zeros where there is no such bias: the numbers stay what they are.
  void add_zero_qkv_bias();
  void add_zero_out_bias();

  // Every tensor under the names and in the layout of `rule`; `heads` counts those of a layout per head. They live as
  // long as this and the set do. Throws DTypeError for parts of different types in one matrix.
  std::vector<NamedTensor> arranged(const AttentionRule& rule, Index heads);

 private:
  TensorBlocks blocks_;
  std::vector<NamedTensor> weights_;  // of queries, keys, values
  std::optional<NamedTensor> biases_[3];
  std::optional<NamedTensor> out_, out_bias_, query_norm_, key_norm_;
};

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_ATTENTION_STATE_H_
