// SPDX-License-Identifier: Apache-2.0
// The options with which a command reads one attention layer, and the reading.
#ifndef HEADWISE_CLI_LAYER_SOURCE_H_
#define HEADWISE_CLI_LAYER_SOURCE_H_

#include <string>
#include <variant>

#include "headwise/checkpoints/attention_choice.h"
#include "headwise/checkpoints/layer_facts.h"
#include "headwise/checkpoints/load_attention.h"

namespace CLI {
class App;
}

namespace headwise::cli {

struct LayerSource {
  std::string path;  // of its file or folder
  AttentionChoice choice;
  LayerFacts facts;
};

// The options' texts, as the parser fills them.
struct LayerSourceWords {
  std::string layer, heads, causal;
};

// Adds --layer-index, --family, --heads and --causal.
void add_layer_options(CLI::App& app, LayerSourceWords& words, LayerSource& source);
// Throws UsageError.
void take_layer_options(const CLI::App& app, const LayerSourceWords& words, LayerSource& source);
// The lines of a help text that say what they do.
extern const char* const kLayerOptionsHelp;

// Calls `use` with the layer, an AttentionLayer<float> or AttentionLayer<double>.
template <class Use>
auto with_layer(const LayerSource& source, const Use& use) {
  if (attention_dtype(source.path, source.choice) == DType::kFloat64) {
    const AnyLayer<double> any = load_attention<double>(source.path, source.choice, source.facts);
    return std::visit([&](const auto& one) { return use(static_cast<const AttentionLayer<double>&>(one)); }, any);
  }
  const AnyLayer<float> any = load_attention<float>(source.path, source.choice, source.facts);
  return std::visit([&](const auto& one) { return use(static_cast<const AttentionLayer<float>&>(one)); }, any);
}

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_LAYER_SOURCE_H_
