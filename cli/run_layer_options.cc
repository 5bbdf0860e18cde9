// SPDX-License-Identifier: Apache-2.0
#include "cli/run_layer_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/layer_choice.h"
#include "cli/usage.h"
#include "headwise/io/array_file.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise::cli {
namespace {

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise run layer.safetensors x.npy\n"
    "  headwise run layer.safetensors x.npy --out out.npy\n"
    "  headwise run layer.safetensors batch.npz --input x --out seen.npz --weights --stats entropy,top_keys\n"
    "  headwise run gpt2/ x.npy --layer 3 --json | jq .heads\n"
    "\n"
    "Usage: headwise run LAYER INPUT [OPTIONS]\n"
    "\n"
    "Runs one attention layer on an array (batch, seq, d_in) or (seq, d_in) of the layer's own type, float32 or "
    "float64,\n"
    "and says what its heads do. Nothing is cast. Dropout is off.\n"
    "\n"
    "  LAYER          safetensors file, model.safetensors.index.json, or a folder with one of them: a layer of "
    "headwise's\n"
    "                 or of a model that inspect knows; float16 and bfloat16 weights are widened\n"
    "  INPUT          .npy, .npz or .safetensors\n"
    "\n"
    "Options:\n"
    "  --out FILE     the output 'out' (batch, seq, d_out) as .npy, .npz or .safetensors\n"
    "  --weights      with --out: also 'weights' (batch, heads, seq_q, seq_kv)\n"
    "  --stats NAMES  with --out: also these, with commas between, or all of them when none is named: entropy,\n"
    "                 max_weight, top_keys, distance, self, previous, next, first, received\n"
    "  --input NAME   which array of INPUT, where it holds several\n"
    "  --keys-values FILE        keys and values from another array (batch, seq_kv, d_in)\n"
    "  --keys-values-input NAME  which array of that file\n"
    "  --lengths N,N,...         how many keys each batch entry has\n"
    "  --align WHERE             upper_left or lower_right: where queries stand when there are more or fewer keys\n"
    "  --query-offset N          the first query stands at position N\n"
    "  --layer N      which layer of LAYER: its number, or its name as inspect shows it\n"
    "  --family NAME  whose names LAYER has, where they leave it open\n"
    "  --heads N      how many heads it has, where no file says it\n"
    "  --causal WHAT  true or false: whether it masks what comes later, where no file says it\n"
    "  --kind NAME    class of a layer of headwise's, where its names fit several\n"
    "  --json         one JSON document\n"
    "  -h, --help     this text\n";

std::vector<std::string> parse_statistics(const std::string& text) {
  std::vector<std::string> names;
  if (text.empty()) {
    names.assign(kStatisticNames.begin(), kStatisticNames.end());
    return names;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    if (std::find(kStatisticNames.begin(), kStatisticNames.end(), name) == kStatisticNames.end()) {
      throw UsageError(
          fmt::format("--stats has no {}; the names are {}", quote_name(name), fmt::join(kStatisticNames, ", ")));
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    begin = end + 1;
  }
  return names;
}

// The texts of options that are more than a text.
struct Given {
  std::vector<std::string> words;
  std::string lengths, align, query_offset, layer, heads, causal, kind, statistics;
};

void take_words(const Given& given, RunLayerOptions& options) {
  if (given.words.empty()) throw UsageError("LAYER is needed: a file or folder with an attention layer");
  if (given.words.size() == 1) throw UsageError("INPUT is needed: a file of arrays, .npy, .npz or .safetensors");
  if (given.words.size() > 2) throw UsageError("unexpected argument " + quote_name(given.words[2]));
  if (given.words[0].empty()) throw UsageError("LAYER must not be empty");
  if (given.words[1].empty()) throw UsageError("INPUT must not be empty");
  options.layer = given.words[0];
  options.input.path = given.words[1];
}

void take_facts(const CLI::App& app, const Given& given, RunLayerOptions& options) {
  if (app.count("--heads") > 0) options.facts.num_heads = parse_count("--heads", given.heads);
  if (app.count("--layer") > 0) take_layer(given.layer, options.choice);
  if (app.count("--causal") > 0) options.facts.causal = parse_flag("--causal", given.causal);
  options.facts.dropout = 0;
  if (app.count("--kind") == 0) return;
  try {
    options.facts.kind = parse_layer_kind(given.kind);
  } catch (const ArgumentError& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

void take_positions(const CLI::App& app, const Given& given, RunLayerOptions& options) {
  if (app.count("--lengths") > 0) options.lengths = parse_counts("--lengths", given.lengths);
  if (app.count("--align") > 0) {
    if (app.count("--query-offset") > 0) throw UsageError("give --align or --query-offset, not both");
    if (given.align != "upper_left" && given.align != "lower_right") {
      throw UsageError("--align must be upper_left or lower_right, got " + quote_name(given.align));
    }
    options.alignment = given.align == "upper_left" ? Alignment::kUpperLeft : Alignment::kLowerRight;
  }
  if (app.count("--query-offset") == 0) return;
  options.alignment = Alignment::kOffset;
  options.query_offset = parse_count("--query-offset", given.query_offset);
}

void take_outputs(const CLI::App& app, const Given& given, RunLayerOptions& options) {
  if (app.count("--stats") > 0) options.request.statistics = parse_statistics(given.statistics);
  const char* extra = options.request.weights ? "--weights" : app.count("--stats") > 0 ? "--stats" : nullptr;
  if (app.count("--out") == 0) {
    if (extra != nullptr) throw UsageError(std::string(extra) + " needs --out: the arrays go into a file");
    return;
  }
  if (!is_array_path(options.out)) {
    throw UsageError(fmt::format("--out must end in {}, got {}", kArrayEndings, quote_name(options.out)));
  }
  if (extra != nullptr && !holds_many_arrays(options.out)) {
    throw UsageError(fmt::format("{} needs an --out that holds several arrays, .npz or .safetensors, got {}", extra,
                                 quote_name(options.out)));
  }
}

}  // namespace

const char* run_layer_help() { return kHelp; }

RunLayerOptions parse_run_layer(std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag("");
  RunLayerOptions options;
  Given given;
  app.add_option("--out", options.out);
  app.add_flag("--weights", options.request.weights)->disable_flag_override();
  app.add_option("--stats", given.statistics)->expected(0, 1);
  app.add_option("--input", options.input.name);
  app.add_option("--keys-values", options.keys_values.path);
  app.add_option("--keys-values-input", options.keys_values.name);
  app.add_option("--lengths", given.lengths);
  app.add_option("--align", given.align);
  app.add_option("--query-offset", given.query_offset);
  app.add_option("--heads", given.heads);
  app.add_option("--kind", given.kind);
  app.add_option("--causal", given.causal);
  app.add_option("--layer", given.layer);
  app.add_option("--family", options.choice.family);
  app.add_flag("--json", options.json)->disable_flag_override();
  app.add_flag("-h,--help", options.help)->disable_flag_override();
  app.add_option("files", given.words);
  parse_arguments(app, arguments);
  if (options.help) return options;
  // First: --stats takes the word behind it for its own.
  take_outputs(app, given, options);
  take_words(given, options);
  take_facts(app, given, options);
  take_positions(app, given, options);
  if (options.keys_values.path.empty() && !options.keys_values.name.empty()) {
    throw UsageError("--keys-values-input needs --keys-values: a file of arrays");
  }
  return options;
}

}  // namespace headwise::cli
