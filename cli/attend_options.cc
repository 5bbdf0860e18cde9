// SPDX-License-Identifier: Apache-2.0
#include "cli/attend_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/head_names.h"
#include "cli/text_table.h"
#include "cli/usage.h"
#include "headwise/io/file_error.h"

namespace headwise::cli {
namespace {

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise attend --model DIR --ids 101,1996,4937,2938,102\n"
    "  headwise attend --model DIR --ids 101,1996,4937,2938,102 --layer 0 --head 3\n"
    "  headwise attend --model DIR --ids 101,1996,102 --ids 101,2009,102 --json\n"
    "  headwise attend --model book-model --text \"Call me\"      # a model of headwise train\n"
    "\n"
    "Usage: headwise attend --model DIR --ids N,N,... [OPTIONS]\n"
    "\n"
    "Runs sentences through a trained model, a BERT-type encoder or a decoder of headwise train, and shows what its "
    "heads do: the shapes along one layer, a "
    "line\n"
    "for each head (entropy in nats; shares of attention on the token itself, the one before, the one after, the "
    "first\n"
    "one and the separators; the strongest pair), and with --layer and --head the weights of that head.\n"
    "\n"
    "Options:\n"
    "  --model DIR    folder with config.json and model.safetensors\n"
    "  --ids N,N,...  token ids of a sentence; once for each sentence\n"
    "  --text TEXT    a sentence for a decoder of headwise train, which reads bytes; once for each sentence\n"
    "  --tokens JSON  array of strings that name the ids, once for each --ids; without it vocab.txt of DIR, or the "
    "ids\n"
    "  --layer L      this layer alone, counted from 0\n"
    "  --head H       with --layer: the weights of this head, counted from 0\n"
    "  --ablate HEADS off: L6H11,L0H3 are those heads at once; all is each head in turn, by its effect on the output\n"
    "  --scale-heads L0H3=0.5,...  the context of these heads times a number\n"
    "  --json         one JSON document\n"
    "  --save FILE    the trace (queries and keys of every layer) as safetensors\n"
    "  --color WHEN   auto, always or never\n"
    "  -h, --help     this text\n";

std::vector<std::string> parse_tokens(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto is_string = [](const nlohmann::json& token) { return token.is_string(); };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_string)) {
    throw UsageError("--tokens must be a JSON array of strings, got " + quote_name(text));
  }
  return json.get<std::vector<std::string>>();
}

// The words of one text, with a blank between.
std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<TokenSequence> sentences_of(const std::vector<std::string>& ids, const std::vector<std::string>& tokens) {
  if (!tokens.empty() && tokens.size() != ids.size()) {
    throw UsageError(
        fmt::format("--tokens must be given once for each --ids: {} of them, got {}", ids.size(), tokens.size()));
  }
  std::vector<TokenSequence> sentences;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    TokenSequence sentence{parse_counts("--ids", ids[i]), {}};
    if (!tokens.empty()) {
      sentence.tokens = parse_tokens(tokens[i]);
      if (sentence.tokens.size() != sentence.ids.size()) {
        throw UsageError(fmt::format("--tokens must name every id of sentence {}: {}, got {}", i + 1,
                                     counted(static_cast<Index>(sentence.ids.size()), "id"),
                                     counted(static_cast<Index>(sentence.tokens.size()), "name")));
      }
    }
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

}  // namespace

const char* attend_help() { return kHelp; }

AttendOptions parse_attend(std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag("");
  AttendOptions options;
  std::vector<std::string> ids, tokens, words;
  std::string layer, head, ablate, scales;
  app.add_option("--model", options.model);
  app.add_option("--text", options.texts)->allow_extra_args(false);
  // One value each time; otherwise the parser takes "[a,b]" apart by itself.
  app.add_option("--ids", ids)->allow_extra_args(false);
  app.add_option("--tokens", tokens)->allow_extra_args(false);
  CLI::Option* layer_option = app.add_option("--layer", layer);
  CLI::Option* head_option = app.add_option("--head", head);
  CLI::Option* ablate_option = app.add_option("--ablate", ablate);
  CLI::Option* scales_option = app.add_option("--scale-heads", scales);
  app.add_flag("--json", options.json)->disable_flag_override();
  CLI::Option* save_option = app.add_option("--save", options.save);
  app.add_option("--color", options.colour);
  app.add_flag("-h,--help", options.help)->disable_flag_override();
  app.add_option("text", words);
  parse_arguments(app, arguments);
  if (options.help) return options;
  if (!words.empty()) options.texts.push_back(joined(words));
  if (std::any_of(options.texts.begin(), options.texts.end(), [](const auto& text) { return text.empty(); })) {
    throw UsageError("the text is empty: there is nothing to attend to");
  }
  if (options.model.empty()) throw UsageError("--model is needed: a folder with config.json and model.safetensors");
  if (ids.empty() && options.texts.empty()) throw UsageError("--ids is needed: the token ids of a sentence");
  options.sentences = sentences_of(ids, tokens);
  if (layer_option->count() > 0) options.layer = parse_count("--layer", layer);
  if (head_option->count() > 0) options.head = parse_count("--head", head);
  if (options.head && !options.layer) throw UsageError("--head needs --layer: a head belongs to a layer");
  if (scales_option->count() > 0) options.scales = parse_head_scales("--scale-heads", scales);
  options.rank_heads = ablate == "all";
  if (ablate_option->count() > 0 && !options.rank_heads) {
    const std::vector<HeadScale> off = parse_heads("--ablate", ablate);
    options.scales.insert(options.scales.end(), off.begin(), off.end());
  }
  if (save_option->count() > 0 && options.save.empty()) throw UsageError("--save needs the name of a file");
  if (options.colour != "auto" && options.colour != "always" && options.colour != "never") {
    throw UsageError("--color must be auto, always or never, got " + quote_name(options.colour));
  }
  return options;
}

void refuse_texts(const AttendOptions& options) {
  if (options.texts.empty()) return;
  throw UsageError("a text needs the Python package, which brings the tokenizer; here give its ids with --ids, got " +
                   quote_name(options.texts.front()));
}

void check_against_model(const AttendOptions& options, const ModelSizes& model) {
  if (options.layer) check_range("--layer", *options.layer, model.layers);
  if (options.head) check_range("--head", *options.head, model.heads);
  for (const HeadScale& scale : options.scales) {
    check_range("the layer of a head", scale.layer, model.layers);
    check_range("the head of a layer", scale.head, model.heads);
  }
  for (const TokenSequence& sentence : options.sentences) {
    for (const std::int64_t id : sentence.ids) check_range("--ids", id, model.vocab);
    if (static_cast<Index>(sentence.ids.size()) > model.positions) {
      throw UsageError(fmt::format("{} has {}; the model takes {}", options.texts.empty() ? "--ids" : "the text",
                                   counted(static_cast<Index>(sentence.ids.size()), "token"), model.positions));
    }
  }
}

}  // namespace headwise::cli
