// SPDX-License-Identifier: Apache-2.0
#include "cli/layer_source.h"

#include <CLI/CLI.hpp>

#include "cli/layer_choice.h"
#include "cli/usage.h"

namespace headwise::cli {

const char* const kLayerOptionsHelp =
    "  --layer-index N  which layer of a model: its number, or its name as inspect shows it\n"
    "  --family NAME    whose names the file has, where they leave it open\n"
    "  --heads N        how many heads it has, where no file says it\n"
    "  --causal WHAT    true or false: whether it masks what comes later, where no file says it\n";

void add_layer_options(CLI::App& app, LayerSourceWords& words, LayerSource& source) {
  app.add_option("--layer-index", words.layer);
  app.add_option("--family", source.choice.family);
  app.add_option("--heads", words.heads);
  app.add_option("--causal", words.causal);
}

void take_layer_options(const CLI::App& app, const LayerSourceWords& words, LayerSource& source) {
  if (app.count("--layer-index") > 0) take_layer(words.layer, source.choice);
  if (app.count("--heads") > 0) source.facts.num_heads = parse_count("--heads", words.heads);
  if (app.count("--causal") > 0) source.facts.causal = parse_flag("--causal", words.causal);
  if (!source.facts.dropout) source.facts.dropout = 0;
}

}  // namespace headwise::cli
