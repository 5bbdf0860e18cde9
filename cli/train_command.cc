// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/train_options.h"
#include "cli/train_report.h"
#include "cli/train_run.h"
#include "cli/usage.h"
#include "headwise/io/file_error.h"
#include "headwise/io/output_file.h"

namespace headwise::cli {
namespace {

std::string absolute_path(const std::string& path) { return std::filesystem::absolute(path).string(); }

void refuse_a_folder_in_use(const TrainOptions& options, const std::string& folder) {
  if (options.resume || !holds_run(folder)) return;
  throw UsageError(fmt::format("--out {} holds a run already: give another folder, or --resume", folder));
}

// A run of a comparison goes on only as what it was begun as.
void check_same_run(const Training& found, const DecoderConfig& decoder, const TrainingConfig& training,
                    const std::string& folder) {
  DecoderConfig wanted = decoder, has = const_cast<Training&>(found).decoder().config();
  wanted.vocab = has.vocab;
  wanted.intermediate = has.intermediate;
  if (wanted == has && training == found.config()) return;
  throw UsageError(fmt::format("{} holds a run with other options", folder));
}

std::string train_one(const TrainOptions& options, const CommandContext& context) {
  refuse_a_folder_in_use(options, options.out);
  const TrainWatch watch{"", options.save_every, options.log_every};
  std::string path = options.text;
  std::unique_ptr<Training> training;
  if (options.resume && path.empty()) path = training_text_path(checkpoint_of(options.out));
  const std::string bytes = read_text(path);
  const TrainingText text{absolute_path(path), bytes};
  if (options.resume) {
    training = load_training(checkpoint_of(options.out), text);
  } else {
    DecoderConfig decoder = options.decoder;
    decoder.heads = options.heads.front();
    training = std::make_unique<Training>(decoder, options.training, bytes);
  }
  const TrainResult result = run_training(*training, text, options.out, watch, context);
  return options.json ? train_json(options.out, {&result, 1}) : train_text(result);
}

TrainResult train_one_of_several(const TrainOptions& options, const TrainingText& text, const std::string& label,
                                 Index heads, Index seed_number, const CommandContext& context) {
  DecoderConfig decoder = options.decoder;
  decoder.heads = heads;
  TrainingConfig config = options.training;
  config.seed += static_cast<std::uint64_t>(seed_number);
  const std::string folder = fmt::format("{}/heads-{}-seed-{}", options.out, heads, config.seed);
  std::unique_ptr<Training> training;
  if (holds_run(folder)) {
    training = load_training(checkpoint_of(folder), text);
    check_same_run(*training, decoder, config, folder);
  } else {
    training = std::make_unique<Training>(decoder, config, text.bytes);
  }
  return run_training(*training, text, folder, {label, options.save_every, options.log_every}, context);
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

std::string train_several(const TrainOptions& options, const CommandContext& context) {
  const std::string bytes = read_text(options.text);
  const TrainingText text{absolute_path(options.text), bytes};
  for (const Index heads : options.heads) {
    for (Index n = 0; n < options.seeds; ++n) {
      const std::uint64_t seed = options.training.seed + static_cast<std::uint64_t>(n);
      refuse_a_folder_in_use(options, fmt::format("{}/heads-{}-seed-{}", options.out, heads, seed));
    }
  }
  std::vector<TrainResult> results;
  // Seed by seed, so that a comparison that is broken off has something of every head count.
  for (Index n = 0; n < options.seeds; ++n) {
    for (const Index heads : options.heads) {
      const std::string label = fmt::format("{} heads, seed {}", heads, options.training.seed + n);
      results.push_back(train_one_of_several(options, text, label, heads, n, context));
    }
  }
  write_text(options.out + "/losses.csv", compare_csv(results));
  write_text(options.out + "/losses.svg", compare_svg(results));
  const std::string json = train_json(options.out, results);
  write_text(options.out + "/losses.json", json);
  return options.json ? json : compare_text(options.out, results);
}

}  // namespace

std::string train_command(std::span<const std::string> arguments, const CommandContext& context) {
  const TrainOptions options = parse_train(arguments);
  if (options.help) return train_help();
  return options.compare ? train_several(options, context) : train_one(options, context);
}

}  // namespace headwise::cli
