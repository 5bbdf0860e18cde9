// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/explain_report.h"
#include "cli/layer_input.h"
#include "cli/layer_source.h"
#include "cli/paths.h"
#include "cli/usage.h"
#include "headwise/io/output_file.h"

namespace headwise::cli {
namespace {

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise explain\n"
    "  headwise explain --html explained.html\n"
    "  headwise explain layer.safetensors --input x.npy --token 3\n"
    "  headwise explain gpt2/ --layer-index 3 --json | jq .path\n"
    "\n"
    "Usage: headwise explain [LAYER | default] [OPTIONS]\n"
    "\n"
    "Walks one input through an attention layer: the shape and the memory of each step, one token's numbers, what "
    "would\n"
    "happen without the head axis, without the transpose, with the softmax on the wrong axis or another scale, and "
    "what\n"
    "d_out counts. Without LAYER: a causal layer of d_in=4, d_out=6 and 3 heads.\n"
    "\n"
    "  LAYER            safetensors file, model.safetensors.index.json, or a folder with one of them\n"
    "\n"
    "Options:\n"
    "  --input FILE     x, (seq, d_in) or (1, seq, d_in) of the layer's type, .npy, .npz or .safetensors; else made "
    "up\n"
    "  --array NAME     which array of FILE\n"
    "  --token N        whose numbers are shown; the middle one unless given\n"
    "  --what-if WHEN   yes or no: also the steps done wrongly; yes unless given\n"
    "  --html FILE      the same as a page, in one file\n";

struct ExplainArguments {
  LayerSource source;
  ArrayChoice input;
  std::optional<Index> token;
  bool what_if = true, json = false, help = false;
  std::string html;
};

bool parse_what_if(const std::string& text) {
  if (text == "yes" || text == "no") return text == "yes";
  throw UsageError("--what-if must be yes or no, got '" + text + "'");
}

ExplainArguments parse(std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag("");
  ExplainArguments result;
  LayerSourceWords words;
  std::vector<std::string> paths;
  std::string token, what_if = "yes";
  app.add_option("--input", result.input.path);
  app.add_option("--array", result.input.name);
  app.add_option("--token", token);
  app.add_option("--what-if", what_if)->expected(0, 1)->default_str("yes");
  app.add_option("--html", result.html);
  add_layer_options(app, words, result.source);
  app.add_flag("--json", result.json)->disable_flag_override();
  app.add_flag("-h,--help", result.help)->disable_flag_override();
  app.add_option("layer", paths);
  parse_arguments(app, arguments);
  if (result.help) return result;
  result.source.path = paths.empty() ? "default" : take_paths(paths, {"LAYER"}).front();
  take_layer_options(app, words, result.source);
  if (app.count("--token") > 0) result.token = parse_count("--token", token);
  result.what_if = what_if.empty() || parse_what_if(what_if);
  if (!result.input.name.empty() && result.input.path.empty())
    throw UsageError("--array needs --input: a file of arrays");
  if (app.count("--html") > 0 && result.html.empty()) throw UsageError("--html needs the name of a file");
  return result;
}

// Of x: (1, seq, d_in).
template <class T>
Tensor<T, 2> read_x(const ExplainArguments& given, Index d_in, Index most) {
  if (given.input.path.empty()) return example_input<T>(std::min<Index>(5, most), d_in);
  ArrayFile file(given.input.path);
  const LayerInput<T> input = read_input<T>(file, chosen_name(file, given.input, "--array"), given.source.path, d_in);
  if (input.view.size(0) != 1) {
    throw UsageError(fmt::format("--input must hold one sequence, got a batch of {}", input.view.size(0)));
  }
  return Tensor<T, 2>(input.view.select(0, 0));
}

template <class T>
Explanation explained(const ExplainArguments& given, const AttentionLayer<T>& layer) {
  const Tensor<T, 2> x = read_x<T>(given, layer.config().d_in, layer.config().context_length.value_or(5));
  if (x.size(0) > 0 && given.token) check_range("--token", *given.token, x.size(0));
  return explain_layer<T>(layer, x.cview(), {given.token.value_or(x.size(0) / 2), given.what_if});
}

}  // namespace

CommandResult explain_command(std::span<const std::string> arguments, const CommandContext& context) {
  const ExplainArguments given = parse(arguments);
  if (given.help) {
    return std::string(kHelp) + kLayerOptionsHelp +
           "  --json           one JSON document\n  -h, --help       this text\n";
  }
  const bool made_up = given.source.path == "default";
  if (!made_up) check_output_apart("--html", given.html, given.source.path);
  check_output_apart("--html", given.html, given.input.path);
  ExplainReport report{given.source.path, given.input.path, {}};
  report.found = made_up ? explained<float>(given, example_layer<float>())
                         : with_layer(given.source, [&](const auto& layer) { return explained(given, layer); });
  std::string text = given.json ? explain_json(report) : explain_text(report, context.terminal.width);
  if (!given.html.empty()) {
    OutputFile page(given.html);
    page.write(std::string_view(explain_html(report)));
    page.commit();
  }
  return text;
}

}  // namespace headwise::cli
