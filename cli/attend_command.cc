// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <system_error>

#include "cli/attend_options.h"
#include "cli/attend_report.h"
#include "cli/commands.h"
#include "cli/vocabulary.h"
#include "headwise/checkpoints/load_encoder.h"
#include "headwise/lens/trace_file.h"

namespace headwise::cli {
namespace {

void name_sentences(AttendOptions& options) {
  const std::string vocabulary = options.model + "/vocab.txt";
  std::error_code error;
  // What is there but cannot be examined is opened, and then named.
  if (!std::filesystem::exists(vocabulary, error) && !error) return;
  for (TokenSequence& sentence : options.sentences) {
    if (sentence.tokens.empty()) sentence.tokens = name_tokens(vocabulary, sentence.ids);
  }
}

// The encoder's attention layer, for its shapes.
AttentionConfig layer_config(const EncoderConfig& encoder) {
  AttentionConfig config;
  config.d_in = config.d_out = encoder.hidden;
  config.num_heads = encoder.heads;
  return config;
}

AttendReport make_report(const AttendOptions& options, const EncoderConfig& config, const AttentionTrace& trace,
                         const Execution& execution) {
  AttendReport report;
  report.model = config;
  report.trace = &trace;
  report.layer = options.layer;
  report.head = options.head;
  report.path_layer = options.layer.value_or(0);
  report.path = shape_path(layer_config(config), 1, trace.sentences.front().seq());
  report.heads = summarize_heads(trace, options.layer, execution);
  if (!options.head) return report;
  for (std::size_t i = 0; i < trace.sentences.size(); ++i) {
    report.weights.push_back(head_weights(trace, static_cast<Index>(i), *options.layer, *options.head, execution));
  }
  return report;
}

}  // namespace

std::string attend_command(std::span<const std::string> arguments, const CommandContext& context) {
  AttendOptions options = parse_attend(arguments);
  if (options.help) return attend_help();
  // The small file first: a wrong layer or id is told before the weights are read.
  const EncoderConfig config = read_encoder_config(options.model + "/config.json");
  check_against_model(options, config);
  name_sentences(options);
  Execution execution;
  execution.cancel = context.cancel;
  AttentionTrace trace = trace_encoder(load_encoder(options.model), options.sentences, execution);
  trace.model = options.model;
  const AttendReport report = make_report(options, config, trace, execution);
  Terminal terminal = context.terminal;
  if (options.colour != "auto") terminal.colour = options.colour == "always";
  std::string text = options.json ? attend_json(report) : attend_text(report, terminal);
  if (!options.save.empty()) save_trace(options.save, trace);
  return text;
}

}  // namespace headwise::cli
