// SPDX-License-Identifier: Apache-2.0
// What `headwise run` was asked for.
#ifndef HEADWISE_CLI_RUN_LAYER_OPTIONS_H_
#define HEADWISE_CLI_RUN_LAYER_OPTIONS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/checkpoints/attention_choice.h"
#include "headwise/checkpoints/layer_facts.h"
#include "headwise/kernels/attention.h"
#include "headwise/lens/layer_run.h"

namespace headwise::cli {

// One array of a file: its name may be left out where there is only one.
struct ArrayChoice {
  std::string path, name;
};

struct RunLayerOptions {
  std::string layer;  // path of its file or folder
  AttentionChoice choice;
  LayerFacts facts;
  ArrayChoice input;
  ArrayChoice keys_values;     // no path: self-attention
  std::vector<Index> lengths;  // of the keys of each batch entry; none: all keys exist
  Alignment alignment = Alignment::kSelf;
  Index query_offset = 0;   // with Alignment::kOffset
  LayerRunRequest request;  // what goes into `out` beside the output
  std::string out;
  bool json = false;
  bool help = false;
};

// Throws UsageError. Nothing is read from disk.
RunLayerOptions parse_run_layer(std::span<const std::string> arguments);

const char* run_layer_help();

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_RUN_LAYER_OPTIONS_H_
