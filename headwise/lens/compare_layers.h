// SPDX-License-Identifier: Apache-2.0
// One attention layer built four ways on one input: as H objects called one after the other, as a stacked wrapper,
// weight-split, and with a single head. Equality, parameters, memory and time.
#ifndef HEADWISE_LENS_COMPARE_LAYERS_H_
#define HEADWISE_LENS_COMPARE_LAYERS_H_

#include <array>
#include <string_view>
#include <vector>

#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

inline constexpr std::array<std::string_view, 4> kComparedWays{"wrapper_loop", "wrapper_stacked", "weight_split",
                                                               "single_head"};

struct CompareShape {
  Index batch = 1, seq = 16, d_in = 64;
  Index d_out = 64;             // of all heads
  bool width_per_head = false;  // d_out is that of one head: the work grows with the heads
  std::vector<Index> heads;     // each divides d_out, unless it is that of one head
  Index rounds = 9;             // each way once in each, in turn
};

struct ComparedWay {
  double microseconds = 0;  // of one forward: median of the rounds
  Index parameters = 0;
  Index working_numbers = 0;  // projections and merged heads that one forward holds at once, in numbers of float32
};

struct ComparedHeads {
  Index heads = 0, head_dim = 0, width = 0;   // width: of the output
  std::array<ComparedWay, 4> ways;            // in the order of kComparedWays
  Index numbers = 0;                          // of the output
  Index loop_differs = 0, split_differs = 0;  // numbers with other bits than the stacked wrapper's
  double single_difference = 0;               // largest |single head - weight-split|, with the same weights
};

// Causal layers of float32 without biases and output projection. Throws ArgumentError "compare: ...", Cancelled.
std::vector<ComparedHeads> compare_layers(const CompareShape& shape, const Execution& execution = {});

}  // namespace headwise

#endif  // HEADWISE_LENS_COMPARE_LAYERS_H_
