// SPDX-License-Identifier: Apache-2.0
#include "cli/train_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/train_checks.h"
#include "cli/usage.h"
#include "headwise/io/file_error.h"

namespace headwise::cli {
namespace {

constexpr const char* kHelp =
    "Examples:\n"
    "  headwise train --text book.txt --out book-model\n"
    "  headwise train --text book.txt --out small --depth 2 --width 64 --heads 2 --steps 500\n"
    "  headwise train --resume book-model                # after Ctrl-C, or a kill\n"
    "  headwise train --text book.txt --out by-heads --heads 1,2,4,8,16 --seeds 3\n"
    "  headwise train --resume by-heads                  # a comparison goes on the same way\n"
    "\n"
    "Usage: headwise train --text FILE --out DIR [OPTIONS]\n"
    "       headwise train --resume DIR [--text FILE]\n"
    "\n"
    "Trains a GPT-type decoder on the bytes of a text: the first nine tenths are trained on, the rest validates. DIR\n"
    "gets config.json and model.safetensors (for generate, attend, inspect), checkpoint.safetensors (for --resume) "
    "and\n"
    "the learning curve, curve.csv and curve.svg. A run that was interrupted and taken up again has the bits of one\n"
    "that was not, on any machine and any number of threads. With several heads or seeds a model is trained for each\n"
    "pair, all of one size, in a folder of its own, and their losses are compared; DIR then has comparison.json, from\n"
    "which --resume knows every option: models that are finished stay, the one that was cut off goes on.\n"
    "\n"
    "Options, with their defaults:\n"
    "  --text FILE             what to learn\n"
    "  --out DIR               a folder for the model; made when it is not there\n"
    "  --resume DIR            go on with the run or the comparison in DIR; --text only where the text has moved\n"
    "  --heads N,N,... 4       attention heads; several: one model for each\n"
    "  --width 128             numbers a token is made of\n"
    "  --depth 4               blocks\n"
    "  --context 64            tokens a sequence has at most\n"
    "  --dropout 0             of embeddings, weights and branches\n"
    "  --bias                  projections and norms with biases\n"
    "  --untied                an output projection that is not the embedding\n"
    "  --steps 2000            batches to learn from\n"
    "  --batch 12              sequences in one\n"
    "  --seed 0                of weights, batches and dropout\n"
    "  --seeds 1               so many seeds, from --seed on: one model for each\n"
    "  --learning-rate 1e-3    its highest value; then half a cosine down to\n"
    "  --last-learning-rate 1e-4\n"
    "  --warm-up N             steps of the rise; a twentieth of the steps\n"
    "  --beta1 0.9             of AdamW, as are\n"
    "  --beta2 0.99\n"
    "  --weight-decay 0.1\n"
    "  --clip 1                largest norm of the gradient; 0: none\n"
    "  --eval-every 500        steps between validations; 0: only at the end\n"
    "  --save-every 500        steps between checkpoints; 0: only at the end and on Ctrl-C\n"
    "  --log-every N           a line on standard error every N steps\n"
    "  --json                  one JSON document\n"
    "  -h, --help              this text\n";

// What changes the numbers: a run that goes on has its own.
struct Settings {
  std::map<std::string, std::string> values;
  bool bias = false, untied = false;
};

constexpr const char* kSettings[] = {"--heads",         "--width",   "--depth",      "--context",
                                     "--dropout",       "--steps",   "--batch",      "--seed",
                                     "--seeds",         "--warm-up", "--beta1",      "--beta2",
                                     "--learning-rate", "--clip",    "--eval-every", "--last-learning-rate",
                                     "--weight-decay"};

std::uint64_t parse_seed(const std::string& text) {
  const Index seed = parse_count("--seed", text);
  if (seed < 0) throw UsageError(fmt::format("--seed must be at least 0, got {}", seed));
  return static_cast<std::uint64_t>(seed);
}

void read_sizes(const Settings& settings, TrainOptions& options) {
  const auto count = [&](const char* name, Index& into) {
    const auto found = settings.values.find(name);
    if (found != settings.values.end()) into = parse_count(name, found->second);
  };
  DecoderConfig& decoder = options.decoder;
  decoder.hidden = 128;
  decoder.layers = 4;
  decoder.positions = 64;
  count("--width", decoder.hidden);
  count("--depth", decoder.layers);
  count("--context", decoder.positions);
  count("--steps", options.training.learning_rate.steps);
  count("--batch", options.training.batch);
  options.training.learning_rate.warm_up = options.training.learning_rate.steps / 20;
  count("--warm-up", options.training.learning_rate.warm_up);
  count("--eval-every", options.training.evaluate_every);
  count("--seeds", options.seeds);
  decoder.bias = settings.bias;
  decoder.tied = !settings.untied;
}

void read_rates(const Settings& settings, TrainOptions& options) {
  const auto number = [&](const char* name, double& into) {
    const auto found = settings.values.find(name);
    if (found != settings.values.end()) into = parse_number(name, found->second);
  };
  TrainingConfig& training = options.training;
  number("--dropout", options.decoder.dropout);
  number("--learning-rate", training.learning_rate.highest);
  // A tenth, as the default is of the default, unless it is given.
  if (settings.values.contains("--learning-rate")) training.learning_rate.last = training.learning_rate.highest / 10;
  number("--last-learning-rate", training.learning_rate.last);
  number("--beta1", training.adamw.beta1);
  number("--beta2", training.adamw.beta2);
  number("--weight-decay", training.adamw.weight_decay);
  number("--clip", training.clip);
}

void read_models(const Settings& settings, TrainOptions& options) {
  const auto heads = settings.values.find("--heads"), seed = settings.values.find("--seed");
  if (heads != settings.values.end()) options.heads = parse_counts("--heads", heads->second);
  if (seed != settings.values.end()) options.training.seed = parse_seed(seed->second);
  options.compare = options.heads.size() > 1 || options.seeds > 1;
}

void check_resume(const Settings& settings) {
  const std::string given = !settings.values.empty() ? settings.values.begin()->first
                            : settings.bias          ? "--bias"
                            : settings.untied        ? "--untied"
                                                     : "";
  if (!given.empty()) throw UsageError(given + " is part of the run that --resume goes on with, and cannot change");
}

}  // namespace

const char* train_help() { return kHelp; }

TrainOptions parse_train(std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag("");
  TrainOptions options;
  Settings settings;
  std::map<std::string, std::string> given;
  std::string resume, save_every, log_every;
  app.add_option("--text", options.text);
  app.add_option("--out", options.out);
  CLI::Option* resume_option = app.add_option("--resume", resume);
  for (const char* name : kSettings) app.add_option(name, given[name]);
  app.add_flag("--bias", settings.bias)->disable_flag_override();
  app.add_flag("--untied", settings.untied)->disable_flag_override();
  CLI::Option* save_option = app.add_option("--save-every", save_every);
  CLI::Option* log_option = app.add_option("--log-every", log_every);
  app.add_flag("--json", options.json)->disable_flag_override();
  app.add_flag("-h,--help", options.help)->disable_flag_override();
  parse_arguments(app, arguments);
  if (options.help) return options;
  for (const char* name : kSettings) {
    if (app.get_option(name)->count() > 0) settings.values[name] = given[name];
  }
  read_sizes(settings, options);
  read_rates(settings, options);
  read_models(settings, options);
  if (save_option->count() > 0) options.save_every = parse_count("--save-every", save_every);
  if (log_option->count() > 0) options.log_every = parse_count("--log-every", log_every);
  if (resume_option->count() > 0) {
    if (!options.out.empty()) throw UsageError("give --out or --resume, not both");
    if (resume.empty()) throw UsageError("--resume needs the name of a folder");
    options.resume = true;
    options.out = resume;
    check_resume(settings);
  }
  if (options.out.empty()) throw UsageError("--out is needed: a folder for the model");
  if (options.text.empty() && !options.resume) throw UsageError("--text is needed: the file to learn");
  check_train_options(options);
  return options;
}

}  // namespace headwise::cli
