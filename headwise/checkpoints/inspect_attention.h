// SPDX-License-Identifier: Apache-2.0
// What attention a checkpoint holds, as its names and shapes and config.json tell it; no weight is read.
#ifndef HEADWISE_CHECKPOINTS_INSPECT_ATTENTION_H_
#define HEADWISE_CHECKPOINTS_INSPECT_ATTENTION_H_

#include <optional>
#include <string>
#include <vector>

#include "headwise/layers/rotary_rule.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// One layer. No value where nothing in the files says it.
struct AttentionSummary {
  std::string name{};  // in front of its tensors: "encoder.layer.3.attention"; "" where they stand alone
  std::optional<Index> number{};
  // Whose names these are: one, or the candidates among which config.json, or `family` in a call, must choose. The rest
  // is told only where the candidates agree.
  std::vector<std::string> families{};
  std::optional<std::string> layout{};  // "qkv_rows", ...
  std::optional<Index> heads{}, kv_heads{}, head_dim{}, d_in{}, d_out{};
  std::optional<bool> qkv_bias{}, out_proj{}, out_bias{}, causal{};
  // Whether queries and keys are turned by their positions, and how; whether there is a window, and how many keys
  // before its own a query sees then.
  std::optional<bool> has_rotary{}, has_window{};
  std::optional<RotaryRule> rotary{};
  std::optional<Index> window_left{};
  std::string dtype{};  // "float32"; "mixed"
  std::optional<Index> parameters{};
  std::string problem{};       // why it cannot be loaded as it is
  bool contradiction = false;  // the problem is that config.json, names and shapes cannot all be true
};

struct AttentionInspection {
  std::string path;  // the file, or the index
  std::size_t files = 1;
  std::vector<AttentionSummary> layers;
  Index attention_parameters = 0;  // of the layers that were understood
  Index parameters = 0;            // elements of every tensor
};

// path: as load_attention takes it. A file without attention has no layers; a layer that cannot be loaded is listed
// with its problem, and with what its tensors say. Throws FileNotFound, or FileError for files that are not what they
// claim to be.
AttentionInspection inspect_attention(const std::string& path);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_INSPECT_ATTENTION_H_
