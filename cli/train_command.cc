// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/paths.h"
#include "cli/text_table.h"
#include "cli/train_checks.h"
#include "cli/train_options.h"
#include "cli/train_report.h"
#include "cli/train_run.h"
#include "cli/usage.h"
#include "headwise/checkpoints/comparison_file.h"
#include "headwise/io/output_file.h"

namespace headwise::cli {
namespace {

std::string absolute_path(const std::string& path) { return std::filesystem::absolute(path).string(); }

std::string comparison_of(const std::string& folder) { return folder + "/comparison.json"; }

bool holds_comparison(const std::string& folder) { return std::filesystem::exists(comparison_of(folder)); }

void refuse_a_folder_in_use(const std::string& folder) {
  if (!holds_run(folder) && !holds_comparison(folder)) return;
  throw UsageError(fmt::format("--out {0} holds a {1} already: give another folder, or --resume {0}",
                               shell_word(folder), holds_run(folder) ? "run" : "comparison"));
}

std::string folder_of(const TrainOptions& options, Index heads, std::uint64_t seed) {
  return fmt::format("{}/heads-{}-seed-{}", options.out, heads, seed);
}

// A run of a comparison goes on only as what it was begun as.
void check_same_run(const Training& found, const DecoderConfig& decoder, const TrainingConfig& training,
                    const std::string& folder) {
  DecoderConfig wanted = decoder, has = const_cast<Training&>(found).decoder().config();
  wanted.vocab = has.vocab;
  wanted.intermediate = has.intermediate;
  if (wanted == has && training == found.config()) return;
  throw UsageError(fmt::format("{} holds a run with other options than its comparison", folder));
}

std::string train_one(const TrainOptions& options, const CommandContext& context) {
  const TrainWatch watch{"", options.out, options.save_every, options.log_every};
  std::string path = options.text;
  std::unique_ptr<Training> training;
  if (options.resume && path.empty()) path = training_text_path(checkpoint_of(options.out));
  const std::string bytes = read_text(path);
  const TrainingText text{absolute_path(path), bytes};
  if (options.resume) {
    training = load_training(checkpoint_of(options.out), text);
  } else {
    refuse_a_folder_in_use(options.out);
    check_text_length(path, bytes, options.decoder.positions);
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
  const std::string folder = folder_of(options, heads, config.seed);
  std::unique_ptr<Training> training;
  if (holds_run(folder)) {
    training = load_training(checkpoint_of(folder), text);
    check_same_run(*training, decoder, config, folder);
  } else {
    training = std::make_unique<Training>(decoder, config, text.bytes);
  }
  return run_training(*training, text, folder, {label, options.out, options.save_every, options.log_every}, context);
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

// What the comparison was begun as, in place of the options.
TrainingComparison take_up(TrainOptions& options) {
  TrainingComparison comparison = load_comparison(comparison_of(options.out));
  options.decoder = comparison.decoder;
  options.training = comparison.training;
  options.heads = comparison.heads;
  options.seeds = comparison.seeds;
  if (options.text.empty()) options.text = comparison.text_path;
  return comparison;
}

void refuse_runs_in_use(const TrainOptions& options) {
  refuse_a_folder_in_use(options.out);
  for (const Index heads : options.heads) {
    for (Index n = 0; n < options.seeds; ++n) {
      refuse_a_folder_in_use(folder_of(options, heads, options.training.seed + static_cast<std::uint64_t>(n)));
    }
  }
}

// The file from which --resume knows the comparison; a text that has moved is noted in it.
void note_comparison(const TrainOptions& options, const TrainingText& text) {
  make_run_folder(options.out, {"comparison.json", "losses.csv", "losses.svg", "losses.json"});
  save_comparison(comparison_of(options.out),
                  {options.decoder, options.training, options.heads, options.seeds, text.path, ""}, text);
}

std::string train_several(TrainOptions options, const CommandContext& context) {
  TrainingComparison begun;
  if (options.resume) begun = take_up(options);
  const std::string bytes = read_text(options.text);
  const TrainingText text{absolute_path(options.text), bytes};
  if (options.resume) {
    check_text(text, begun.text_fingerprint);
  } else {
    refuse_runs_in_use(options);
    check_text_length(options.text, bytes, options.decoder.positions);
  }
  note_comparison(options, text);
  std::vector<TrainResult> results;
  // Seed by seed, so that a comparison that is broken off has something of every head count.
  for (Index n = 0; n < options.seeds; ++n) {
    for (const Index heads : options.heads) {
      const std::string label = fmt::format("{}, seed {}", counted(heads, "head"), options.training.seed + n);
      results.push_back(train_one_of_several(options, text, label, heads, n, context));
    }
  }
  write_text(options.out + "/losses.csv", compare_csv(results));
  write_text(options.out + "/losses.svg", compare_svg(results));
  const std::string json = train_json(options.out, results);
  write_text(options.out + "/losses.json", json);
  return options.json ? json : compare_text(options.out, results);
}

// Whether the folder to go on in holds a comparison. Throws UsageError when it holds nothing to go on with.
bool is_comparison(const std::string& folder) {
  if (holds_comparison(folder)) return true;
  if (holds_run(folder)) return false;
  throw UsageError(
      fmt::format("--resume {}: there is no run to go on with: neither checkpoint.safetensors nor "
                  "comparison.json is there",
                  shell_word(folder)));
}

}  // namespace

CommandResult train_command(std::span<const std::string> arguments, const CommandContext& context) {
  TrainOptions options = parse_train(arguments);
  if (options.help) return train_help();
  if (options.resume) options.compare = is_comparison(options.out);
  return options.compare ? train_several(options, context) : train_one(options, context);
}

}  // namespace headwise::cli
