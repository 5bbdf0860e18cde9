// SPDX-License-Identifier: Apache-2.0
// The command `run`; run_command.cc runs any command.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/commands.h"
#include "cli/layer_input.h"
#include "cli/paths.h"
#include "cli/run_layer_options.h"
#include "cli/run_layer_report.h"
#include "cli/usage.h"
#include "headwise/checkpoints/load_attention.h"
#include "headwise/io/array_file.h"

namespace headwise::cli {
namespace {

template <class T>
ValueRange range_of(const Tensor<T, 3>& out) {
  ValueRange range;
  for (Index i = 0; i < out.elements(); ++i) {
    const double value = static_cast<double>(out.data()[i]);
    if (!std::isfinite(value)) {
      ++range.not_finite;
      continue;
    }
    range.least = range.finite == 0 ? value : std::min(range.least, value);
    range.most = range.finite == 0 ? value : std::max(range.most, value);
    range.mean += value;
    ++range.finite;
  }
  if (range.finite > 0) range.mean /= static_cast<double>(range.finite);
  return range;
}

// What the summary shows, and what was asked for.
LayerRunRequest with_summary(const LayerRunRequest& asked, bool has_positions) {
  LayerRunRequest request = asked;
  for (const std::string_view name : kStatisticNames) {
    if (name == "top_keys" || name == "received" || (statistic_needs_positions(name) && !has_positions)) continue;
    if (std::find(request.statistics.begin(), request.statistics.end(), name) == request.statistics.end()) {
      request.statistics.emplace_back(name);
    }
  }
  return request;
}

// Which queries see a key is the same for every head: the command gives no mask.
template <class T>
void add_means(const LayerRun<T>& run, RunLayerReport& report) {
  const Tensor<T, 3>& most = *run.find("max_weight");
  for (Index entry = 0; entry < most.size(0); ++entry) {
    for (Index row = 0; row < most.size(2); ++row) report.seeing += most(entry, 0, row) == 0 ? 0 : 1;
  }
  for (const std::string_view name : kStatisticNames) {
    if (name == "received") continue;
    if (const Tensor<T, 3>* statistic = run.find(name)) report.means.emplace_back(name, head_means(*statistic, most));
  }
}

// Throws UsageError for positions and lengths that these arrays leave open or do not have.
void check_positions(const RunLayerOptions& options, const AttentionConfig& layer, Index batch, Index seq_q,
                     Index seq_kv) {
  if (options.alignment == Alignment::kSelf && seq_q != seq_kv && (layer.causal || layer.window_left)) {
    throw UsageError(
        fmt::format("the layer {}, and there are {} queries and {} keys: --align or --query-offset must say where the "
                    "queries stand",
                    layer.causal ? "is causal" : "has a window", seq_q, seq_kv));
  }
  const std::vector<Index>& lengths = options.lengths;
  if (lengths.empty()) return;
  if (static_cast<Index>(lengths.size()) != batch) {
    throw UsageError(fmt::format("--lengths must be {}, one for each batch entry, got {}", batch, lengths.size()));
  }
  for (const Index length : lengths) {
    if (length >= 0 && length <= seq_kv) continue;
    throw UsageError(fmt::format("--lengths must be in 0..{}, got {}: there are {} keys", seq_kv, length, seq_kv));
  }
}

template <class T>
std::string run_typed(const RunLayerOptions& options, const CommandContext& context) {
  const AnyLayer<T> any = load_attention<T>(options.layer, options.choice, options.facts);
  const AttentionLayer<T>& layer = std::visit([](const auto& one) -> const AttentionLayer<T>& { return one; }, any);
  ArrayFile input_file(options.input.path);
  const Index d_in = layer.config().d_in;
  const LayerInput<T> x =
      read_input<T>(input_file, chosen_name(input_file, options.input, "--input"), options.layer, d_in);
  std::optional<ArrayFile> keys_file;
  LayerInput<T> keys_values;
  if (!options.keys_values.path.empty()) {
    keys_file.emplace(options.keys_values.path);
    keys_values = read_input<T>(*keys_file, chosen_name(*keys_file, options.keys_values, "--keys-values-input"),
                                options.layer, d_in);
  }
  check_positions(options, layer.config(), x.view.size(0), x.view.size(1),
                  keys_values.view ? keys_values.view.size(1) : x.view.size(1));
  ForwardOptions<T> forward;
  forward.visibility.alignment = options.alignment;
  forward.visibility.query_offset = {&options.query_offset, options.alignment == Alignment::kOffset ? 1U : 0U};
  forward.visibility.kv_lengths = options.lengths;
  const bool has_positions =
      options.alignment != Alignment::kSelf || !keys_values.view || keys_values.view.size(1) == x.view.size(1);
  Execution execution;
  execution.cancel = context.cancel;
  const LayerRun<T> run =
      run_layer<T>(layer, x.view, keys_values.view, forward, with_summary(options.request, has_positions), execution);

  RunLayerReport report{options.layer,
                        options.input.path,
                        options.keys_values.path,
                        options.out,
                        layer.config(),
                        layer.sizes(),
                        x.facts,
                        keys_values.facts,
                        {},
                        range_of(run.out),
                        x.view.size(0) * x.view.size(1),
                        0,
                        {},
                        {}};
  add_means(run, report);
  const std::vector<NamedTensor> arrays = run_arrays(run, options.request, !x.is_batch);
  report.out = {arrays[0].name, arrays[0].dtype, arrays[0].shape};
  if (!options.out.empty()) {
    for (const NamedTensor& array : arrays) report.written.push_back({array.name, array.dtype, array.shape});
  }
  std::string text = options.json ? run_layer_json(report) : run_layer_text(report);
  if (execution.cancelled()) throw Cancelled();
  if (!options.out.empty()) write_arrays(options.out, arrays);
  return text;
}

}  // namespace

CommandResult run_layer_command(std::span<const std::string> arguments, const CommandContext& context) {
  const RunLayerOptions options = parse_run_layer(arguments);
  if (options.help) return run_layer_help();
  for (const std::string& read : {options.layer, options.input.path, options.keys_values.path}) {
    check_output_apart("--out", options.out, read);
  }
  if (attention_dtype(options.layer, options.choice) == DType::kFloat64) return run_typed<double>(options, context);
  return run_typed<float>(options, context);
}

}  // namespace headwise::cli
