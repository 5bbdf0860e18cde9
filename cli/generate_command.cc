// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/byte_argument.h"
#include "cli/commands.h"
#include "cli/usage.h"
#include "headwise/checkpoints/decoder_file.h"
#include "headwise/models/generation.h"

namespace headwise::cli {
namespace {

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise generate book-model\n"
    "  headwise generate book-model --prompt \"Call me\" --tokens 200 --temperature 0.8 --top-k 20 --seed 3\n"
    "  headwise generate book-model --prompt \"Call me\" --json\n"
    "\n"
    "Usage: headwise generate DIR [OPTIONS]\n"
    "\n"
    "Text from a model that headwise train made: the prompt, and what the model writes behind it, byte by byte. The\n"
    "same seed gives the same text on every machine.\n"
    "\n"
    "Options, with their defaults:\n"
    "  --prompt TEXT      what to go on from; without it a line break, which is not shown\n"
    "  --tokens 300       bytes to write\n"
    "  --temperature 1    below 1 the likely ones are favoured; 0: always the likeliest\n"
    "  --top-k K          draw among the K likeliest\n"
    "  --seed 0           of the draws\n"
    "  --json             one JSON document\n"
    "  -h, --help         this text\n";

struct GenerateOptions {
  std::string folder, prompt;
  bool has_prompt = false, json = false, help = false;
  Index tokens = 300;
  Sampling sampling;
};

GenerateOptions parse_generate(std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag("");
  GenerateOptions options;
  std::string tokens, temperature, top_k, seed;
  app.add_option("folder", options.folder);
  CLI::Option* prompt = app.add_option("--prompt", options.prompt);
  CLI::Option* tokens_option = app.add_option("--tokens", tokens);
  CLI::Option* temperature_option = app.add_option("--temperature", temperature);
  CLI::Option* top_k_option = app.add_option("--top-k", top_k);
  CLI::Option* seed_option = app.add_option("--seed", seed);
  app.add_flag("--json", options.json)->disable_flag_override();
  app.add_flag("-h,--help", options.help)->disable_flag_override();
  parse_arguments(app, arguments);
  if (options.help) return options;
  if (options.folder.empty()) throw UsageError("a folder is needed, as headwise train writes it");
  options.has_prompt = prompt->count() > 0;
  if (options.has_prompt && options.prompt.empty()) throw UsageError("--prompt must not be empty");
  const auto count = [](const char* name, const std::string& text, Index least) {
    const Index value = parse_count(name, text);
    if (value < least) throw UsageError(fmt::format("{} must be at least {}, got {}", name, least, value));
    return value;
  };
  if (tokens_option->count() > 0) options.tokens = count("--tokens", tokens, 0);
  if (top_k_option->count() > 0) options.sampling.top_k = count("--top-k", top_k, 1);
  if (seed_option->count() > 0) options.sampling.seed = static_cast<std::uint64_t>(count("--seed", seed, 0));
  if (temperature_option->count() > 0) options.sampling.temperature = parse_number("--temperature", temperature);
  if (options.sampling.temperature < 0) {
    throw UsageError(fmt::format("--temperature must be at least 0, got {}", options.sampling.temperature));
  }
  return options;
}

// What the model sees first: the prompt, or one line break, or where there is none the first byte it knows.
std::string start_of(const GenerateOptions& options, const ByteVocabulary& vocabulary) {
  if (options.has_prompt) return options.prompt;
  const auto& bytes = vocabulary.bytes();
  const bool has_line_break = std::find(bytes.begin(), bytes.end(), '\n') != bytes.end();
  return {has_line_break ? '\n' : vocabulary.decode(0)};
}

// The text may be cut within a character of UTF-8: "bytes" has what "generated" shows as U+FFFD.
std::string generated_json(const GenerateOptions& options, const std::string& generated) {
  using Json = nlohmann::ordered_json;
  Json bytes = Json::array();
  for (const char letter : generated) bytes.push_back(static_cast<std::uint8_t>(letter));
  const Json document{{"schema", 1},
                      {"command", "generate"},
                      {"version", HEADWISE_VERSION},
                      {"folder", options.folder},
                      {"prompt", options.has_prompt ? Json(options.prompt) : Json(nullptr)},
                      {"temperature", options.sampling.temperature},
                      {"top_k", options.sampling.top_k == 0 ? Json(nullptr) : Json(options.sampling.top_k)},
                      {"seed", options.sampling.seed},
                      {"generated", generated},
                      {"bytes", std::move(bytes)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

CommandResult generate_command(std::span<const std::string> arguments, const CommandContext& context) {
  const GenerateOptions options = parse_generate(arguments);
  if (options.help) return kHelp;
  const ByteDecoder model = load_byte_decoder(options.folder);
  const std::vector<std::int64_t> prompt =
      encode_argument("--prompt", start_of(options, model.vocabulary), model.vocabulary);
  std::string generated;
  Execution execution;
  execution.cancel = context.cancel;
  generate(
      model.decoder, prompt, options.tokens, options.sampling,
      [&](std::int64_t token) { generated += model.vocabulary.decode(token); }, execution);
  return options.json ? generated_json(options, generated) : options.prompt + generated + "\n";
}

}  // namespace headwise::cli
