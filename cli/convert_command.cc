// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/layer_choice.h"
#include "cli/option_words.h"
#include "cli/paths.h"
#include "cli/text_table.h"
#include "cli/usage.h"
#include "headwise/checkpoints/convert_attention.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise::cli {
namespace {

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise convert wrapper.safetensors fused.safetensors --to book\n"
    "  headwise convert gpt2/ layer3.safetensors --to torch --layer 3\n"
    "  headwise convert mha.safetensors heads.safetensors --to wrapper --heads 4\n"
    "\n"
    "Usage: headwise convert IN OUT --to FAMILY [OPTIONS]\n"
    "\n"
    "Writes one attention layer in another family's names and layout; every value keeps its bits and its type. What "
    "is\n"
    "known of the layer goes into the new file's metadata. OUT appears whole or not at all; a layer that the family\n"
    "cannot hold is refused.\n"
    "\n"
    "Options:\n"
    "  --to FAMILY    book      W_query, W_key, W_value, out_proj: the book's fused layer\n"
    "                 wrapper   heads.{i}.W_query, ...: the book's list of single heads\n"
    "                 seed      query_weight, key_weight, value_weight; no output projection\n"
    "                 torch     in_proj_weight, out_proj: nn.MultiheadAttention, packed\n"
    "                 qkv       qkv, proj: one matrix, rows of queries, keys, values\n"
    "                 gpt2      c_attn, c_proj as Conv1D: (in, out)\n"
    "                 nanogpt   c_attn, c_proj as Linear: (out, in)\n"
    "                 separate  q_proj, k_proj, v_proj, o_proj\n"
    "  --from FAMILY  whose names IN has, where they leave it open\n"
    "  --layer N      which layer of IN: its number, or its name as inspect shows it\n"
    "  --heads H      how many heads it has, where no file says it\n"
    "  --causal WHAT  true or false: whether it masks what comes later, where no file says it\n"
    "  --json         one JSON document\n"
    "  -h, --help     this text\n";

struct Request {
  std::string in, out;
  ConvertOptions options;
  bool json = false;
};

std::string report_text(const Request& request, const ConvertReport& report) {
  const std::string layer = report.layer.empty() ? "the layer" : "layer " + quote_name(report.layer);
  const std::string heads = report.heads ? ", " + counted(*report.heads, "head") : "";
  std::string text = fmt::format("{} of {}: {} -> {}{}, {} in {}\n", layer, request.in, report.from, report.to, heads,
                                 counted(static_cast<Index>(report.tensors), "tensor"), request.out);
  for (const std::string& note : report.notes) text += "  " + note + "\n";
  return text;
}

std::string report_json(const Request& request, const ConvertReport& report) {
  using Json = nlohmann::ordered_json;
  const Json document{{"schema", 1},
                      {"command", "convert"},
                      {"version", HEADWISE_VERSION},
                      {"in", request.in},
                      {"out", request.out},
                      {"layer", report.layer},
                      {"from", report.from},
                      {"to", report.to},
                      {"heads", report.heads ? Json(*report.heads) : Json(nullptr)},
                      {"tensors", report.tensors},
                      {"notes", report.notes}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

CommandResult convert_command(std::span<const std::string> arguments, const CommandContext&) {
  CLI::App app;
  app.set_help_flag("");
  Request request;
  bool help = false;
  std::string layer, heads, causal;
  std::vector<std::string> paths;
  app.add_option("--to", request.options.to);
  app.add_option("--from", request.options.from.family);
  const CLI::Option* layer_option = app.add_option("--layer", layer);
  const CLI::Option* heads_option = app.add_option("--heads", heads);
  const CLI::Option* causal_option = app.add_option("--causal", causal);
  app.add_flag("--json", request.json)->disable_flag_override();
  app.add_flag("-h,--help", help)->disable_flag_override();
  app.add_option("paths", paths);
  parse_arguments(app, arguments);
  if (help) return kHelp;
  const std::vector<std::string> files = take_paths(paths, {"IN", "OUT"});
  request.in = files[0];
  request.out = files[1];
  check_output_apart("OUT", request.out, request.in);
  if (request.options.to.empty()) {
    throw UsageError(fmt::format("--to is needed: one of {}", fmt::join(convert_target_names(), ", ")));
  }
  if (layer_option->count() > 0) take_layer(layer, request.options.from);
  if (heads_option->count() > 0) request.options.num_heads = parse_count("--heads", heads);
  if (causal_option->count() > 0) request.options.causal = parse_flag("--causal", causal);
  try {
    const ConvertReport report = convert_attention(request.in, request.out, request.options);
    return request.json ? report_json(request, report) : report_text(request, report);
  } catch (const ArgumentError& error) {
    throw UsageError(in_option_words("convert", error.what()));
  }
}

}  // namespace headwise::cli
