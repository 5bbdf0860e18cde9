// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <system_error>

#include "cli/attend_options.h"
#include "cli/attend_report.h"
#include "cli/byte_argument.h"
#include "cli/commands.h"
#include "cli/paths.h"
#include "cli/vocabulary.h"
#include "headwise/checkpoints/decoder_file.h"
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

// The model's attention layer, for its shapes.
AttentionConfig layer_config(const ModelSizes& model) {
  AttentionConfig config;
  config.d_in = config.d_out = model.hidden;
  config.num_heads = model.heads;
  return config;
}

template <class Config>
ModelSizes sizes_of(const Config& config) {
  return {config.layers, config.heads, config.hidden, config.vocab, config.positions};
}

// Every text as bytes, and every token's name.
void read_bytes(AttendOptions& options, const ByteVocabulary& vocabulary) {
  for (const std::string& text : options.texts)
    options.sentences.push_back({encode_argument("the text", text, vocabulary), {}});
  for (TokenSequence& sentence : options.sentences) {
    if (!sentence.tokens.empty()) continue;
    for (const std::int64_t id : sentence.ids) {
      const bool known = id >= 0 && id < vocabulary.size();
      sentence.tokens.push_back(known ? vocabulary.name(id) : std::to_string(id));
    }
  }
}

// What switching heads off does; the trace is then that of the changed model.
template <class Model>
void change_heads(Model& model, const AttendOptions& options, AttendReport& report, const Execution& execution) {
  report.scales = options.scales;
  if (options.rank_heads) report.ranking = rank_heads(model, options.sentences, execution);
  if (options.scales.empty()) return;
  report.effect = effect_of(model, options.sentences, options.scales, execution);
  scale_heads(model, options.scales);
}

// The small file first: a wrong layer or id is told before the weights are read.
AttentionTrace trace_of(AttendOptions& options, AttendReport& report, const Execution& execution) {
  ModelSizes& sizes = report.model;
  if (is_byte_decoder(options.model)) {
    const ByteDecoderConfig config = read_byte_decoder_config(options.model);
    sizes = sizes_of(config.decoder);
    read_bytes(options, config.vocabulary);
    check_against_model(options, sizes);
    Decoder<float> decoder = load_byte_decoder(options.model).decoder;
    change_heads(decoder, options, report, execution);
    return trace_decoder(decoder, options.sentences, execution);
  }
  sizes = sizes_of(read_encoder_config(options.model + "/config.json"));
  refuse_texts(options);
  check_against_model(options, sizes);
  name_sentences(options);
  Encoder<float> encoder = load_encoder(options.model);
  change_heads(encoder, options, report, execution);
  return trace_encoder(encoder, options.sentences, execution);
}

void fill_report(const AttendOptions& options, const AttentionTrace& trace, const Execution& execution,
                 AttendReport& report) {
  report.trace = &trace;
  report.layer = options.layer;
  report.head = options.head;
  report.path_layer = options.layer.value_or(0);
  report.path = shape_path(layer_config(report.model), 1, trace.sentences.front().seq());
  report.heads = summarize_heads(trace, options.layer, execution);
  if (!options.head) return;
  for (std::size_t i = 0; i < trace.sentences.size(); ++i) {
    report.weights.push_back(head_weights(trace, static_cast<Index>(i), *options.layer, *options.head, execution));
  }
}

}  // namespace

CommandResult attend_command(std::span<const std::string> arguments, const CommandContext& context) {
  AttendOptions options = parse_attend(arguments);
  if (options.help) return attend_help();
  check_output_apart("--save", options.save, options.model);
  Execution execution;
  execution.cancel = context.cancel;
  AttendReport report;
  AttentionTrace trace = trace_of(options, report, execution);
  trace.model = options.model;
  fill_report(options, trace, execution, report);
  Terminal terminal = context.terminal;
  if (options.colour != "auto") terminal.colour = options.colour == "always";
  std::string text = options.json ? attend_json(report) : attend_text(report, terminal);
  if (!options.save.empty()) save_trace(options.save, trace);
  return text;
}

}  // namespace headwise::cli
