// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/layer_input.h"
#include "cli/layer_source.h"
#include "cli/text_table.h"
#include "cli/usage.h"
#include "headwise/io/file_error.h"
#include "headwise/lens/diagnose.h"
#include "headwise/tensor/shape_check.h"

namespace headwise::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise diagnose --layer layer.safetensors --input x.npy --got y.npy\n"
    "  headwise diagnose --layer layer.safetensors --input arrays.npz --array x --got arrays.npz --got-array y --json\n"
    "\n"
    "Usage: headwise diagnose --layer LAYER --input FILE --got FILE [OPTIONS]\n"
    "\n"
    "Names the mistake in an output that somebody's code gave for this layer and input: which of the known mistakes "
    "gives\n"
    "just that output, or that it is right, or that none fits. The table says how far each is away, as root mean "
    "square of\n"
    "the difference in units of the right output's. Right covers the rounding of 16-bit numbers. Dropout is found "
    "where rows\n"
    "see no more keys than a head has columns.\n"
    "\n"
    "Options:\n"
    "  --layer LAYER    safetensors file, model.safetensors.index.json, or a folder with one of them\n"
    "  --input FILE     x, (batch, seq, d_in) or (seq, d_in) of the layer's type, .npy, .npz or .safetensors\n"
    "  --array NAME     which array of it\n"
    "  --got FILE       the output in question, (batch, seq, d_out) or (seq, d_out), float32 or float64; with fewer "
    "tokens\n"
    "                   than x it is that of the last ones\n"
    "  --got-array NAME which array of it\n";

struct DiagnoseArguments {
  LayerSource source;
  ArrayChoice input, got;
  bool json = false, help = false;
};

DiagnoseArguments parse(std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag("");
  DiagnoseArguments result;
  LayerSourceWords words;
  app.add_option("--layer", result.source.path);
  app.add_option("--input", result.input.path);
  app.add_option("--array", result.input.name);
  app.add_option("--got", result.got.path);
  app.add_option("--got-array", result.got.name);
  add_layer_options(app, words, result.source);
  app.add_flag("--json", result.json)->disable_flag_override();
  app.add_flag("-h,--help", result.help)->disable_flag_override();
  parse_arguments(app, arguments);
  if (result.help) return result;
  if (result.source.path.empty()) throw UsageError("--layer is needed: a file or folder with an attention layer");
  if (result.input.path.empty()) throw UsageError("--input is needed: a file with x");
  if (result.got.path.empty()) throw UsageError("--got is needed: a file with the output in question");
  take_layer_options(app, words, result.source);
  return result;
}

// The output in question, widened.
Tensor<double, 3> read_got(const DiagnoseArguments& given, Index d_out) {
  ArrayFile file(given.got.path);
  const std::string name = chosen_name(file, given.got, "--got-array");
  const ArrayFacts facts = file.facts(name);
  const std::size_t rank = facts.shape.size();
  if ((rank != 2 && rank != 3) || facts.shape.back() != d_out) {
    throw FileError(file.path(), fmt::format("array {} must be (batch, seq, d_out={}) or (seq, d_out={}), got {}",
                                             quote_name(name), d_out, d_out, format_shape(facts.shape)));
  }
  const auto widened = [&](const auto& input) {
    Tensor<double, 3> wide(input.view.shape());
    copy_elements(input.view, wide.view());
    return wide;
  };
  if (facts.dtype == DType::kFloat64) return widened(read_input<double>(file, name, given.source.path, d_out));
  if (facts.dtype == DType::kFloat32) return widened(read_input<float>(file, name, given.source.path, d_out));
  throw FileError(file.path(), fmt::format("array {} is {}; float32 and float64 are taken", quote_name(name),
                                           dtype_name(facts.dtype)));
}

template <class T>
Diagnosis examined(const DiagnoseArguments& given, const AttentionLayer<T>& layer) {
  ArrayFile file(given.input.path);
  const LayerInput<T> x =
      read_input<T>(file, chosen_name(file, given.input, "--array"), given.source.path, layer.config().d_in);
  return diagnose<T>(layer, x.view, read_got(given, layer.config().d_out).cview());
}

const MistakeDistance& entry_of(const Diagnosis& found, const std::string& name) {
  return *std::find_if(found.distances.begin(), found.distances.end(),
                       [&](const MistakeDistance& one) { return one.name == name; });
}

std::string verdict_text(const Diagnosis& found) {
  if (found.verdict == Verdict::kRight) return fmt::format("Right: {:.2g} from the layer's own output.\n", found.right);
  std::string text;
  if (found.not_finite > 0)
    text += fmt::format("{} numbers are NaN or infinite and were not compared.\n", found.not_finite);
  if (found.verdict == Verdict::kNone) {
    return text +
           fmt::format("None of the known mistakes fits, and the output is not right: {:.2g} from the layer's own.\n",
                       found.right);
  }
  text += found.names.size() == 1 ? "Found:\n" : "Found one of these, which give the same output here:\n";
  for (const std::string& name : found.names) text += fmt::format("  {}: {}\n", name, entry_of(found, name).what);
  return text;
}

std::string report_text(const Diagnosis& found) {
  std::vector<std::vector<std::string>> rows{{"distance", "mistake", ""}};
  rows.push_back({fmt::format("{:.2e}", found.right), "(right)", "the layer's own output"});
  for (const MistakeDistance& one : found.distances) {
    rows.push_back(
        {one.distance ? fmt::format("{:.2e}", *one.distance) : "-", one.name, one.note.empty() ? one.what : one.note});
  }
  const Align columns[] = {Align::kRight, Align::kLeft, Align::kLeft};
  return verdict_text(found) + "\n" + text_table(columns, rows);
}

std::string report_json(const DiagnoseArguments& given, const Diagnosis& found) {
  Json mistakes = Json::array();
  for (const MistakeDistance& one : found.distances) {
    Json entry{{"name", one.name}, {"what", one.what}};
    entry["distance"] = one.distance ? Json(*one.distance) : Json(nullptr);
    entry["note"] = one.note.empty() ? Json(nullptr) : Json(one.note);
    mistakes.push_back(std::move(entry));
  }
  const Json document{{"schema", 1},
                      {"command", "diagnose"},
                      {"version", HEADWISE_VERSION},
                      {"layer", given.source.path},
                      {"input", given.input.path},
                      {"got", given.got.path},
                      {"verdict", verdict_name(found.verdict)},
                      {"names", found.names},
                      {"right", found.right},
                      {"not_finite", found.not_finite},
                      {"mistakes", std::move(mistakes)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

CommandResult diagnose_command(std::span<const std::string> arguments, const CommandContext&) {
  const DiagnoseArguments given = parse(arguments);
  if (given.help) {
    return std::string(kHelp) + kLayerOptionsHelp +
           "  --json           one JSON document\n  -h, --help       this text\n";
  }
  const Diagnosis found = with_layer(given.source, [&](const auto& layer) { return examined(given, layer); });
  return given.json ? report_json(given, found) : report_text(found);
}

}  // namespace headwise::cli
