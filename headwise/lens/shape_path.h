// SPDX-License-Identifier: Apache-2.0
// The shapes that one attention layer's numbers pass through, step by step, with where each step's memory lies.
#ifndef HEADWISE_LENS_SHAPE_PATH_H_
#define HEADWISE_LENS_SHAPE_PATH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/layers/attention_config.h"

namespace headwise {

enum class StepMemory : std::uint8_t {
  kNew,          // numbers of its own
  kView,         // the numbers of the step before, in other strides: nothing is copied
  kNeverStored,  // worked on piece by piece
};

struct ShapeStep {
  std::string name;               // "queries"
  std::string how;                // "input W_query^T"
  std::vector<std::string> axes;  // {"batch", "seq", "d_out"}
  std::vector<Index> shape;       // beside the axes
  std::vector<Index> strides;     // in elements; empty where nothing is stored
  StepMemory memory = StepMemory::kNew;
};

// Self-attention of a layer of these sizes on (batch, seq, d_in): input, queries, split, transposed, scores, weights,
// context, merged, and with an output projection output. Strides and sharing are those of the views that the layer
// takes. Throws as check_config does.
std::vector<ShapeStep> shape_path(const AttentionConfig& config, Index batch, Index seq);

// "view", "new", "not stored".
std::string_view memory_name(StepMemory memory);

}  // namespace headwise

#endif  // HEADWISE_LENS_SHAPE_PATH_H_
