// SPDX-License-Identifier: Apache-2.0
// The sizes of a layer as the names and shapes of a file's tensors tell them. Not installed.
#ifndef HEADWISE_CHECKPOINTS_LAYER_LAYOUT_H_
#define HEADWISE_CHECKPOINTS_LAYER_LAYOUT_H_

#include <optional>

#include "headwise/checkpoints/layer_facts.h"
#include "headwise/io/safetensors.h"

namespace headwise {

struct LayerLayout {
  std::optional<LayerKind> kind;   // nothing where the names fit several
  std::optional<Index> num_heads;  // where the names count them
  Index d_in = 0;
  Index d_out = 0;  // width of the output
  Index query_rows = 0, key_rows = 0;
  bool qkv_bias = false, out_proj = false, out_bias = false;
};

// Throws FileError when the file holds no layer that headwise knows by its names.
LayerLayout read_layer_layout(const SafetensorsFile& file);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_LAYER_LAYOUT_H_
