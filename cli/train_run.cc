// SPDX-License-Identifier: Apache-2.0
#include "cli/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "cli/line_chart.h"
#include "cli/paths.h"
#include "cli/train_progress.h"
#include "headwise/checkpoints/decoder_file.h"
#include "headwise/io/file_error.h"
#include "headwise/io/mapped_file.h"
#include "headwise/io/output_file.h"

namespace headwise::cli {
namespace {

// Steps whose losses make one point of the curve, and the loss that is reported.
constexpr std::size_t kPoints = 200, kLastSteps = 100;

double mean(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t n = begin; n < end; ++n) sum += values[n];
  return sum / static_cast<double>(end - begin);
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

// A row for each step, and the validation loss where there was one before it.
std::string curve_csv(const Training& training) {
  std::string text = "step,train_loss,validation_loss\n";
  auto next = training.evaluations().begin();
  const Index steps = training.steps_done();
  for (Index step = 0; step <= steps; ++step) {
    const bool evaluated = next != training.evaluations().end() && next->step == step;
    if (step == steps && !evaluated) break;
    text += fmt::format("{},{},{}\n", step, step < steps ? fmt::format("{}", training.losses()[step]) : "",
                        evaluated ? fmt::format("{}", next->loss) : "");
    if (evaluated) ++next;
  }
  return text;
}

std::string curve_svg(const Training& training) {
  ChartSeries train{"training", {}, true, false}, validation{"validation", {}, true, true};
  const std::vector<double>& losses = training.losses();
  const std::size_t step = std::max<std::size_t>(1, losses.size() / kPoints);
  for (std::size_t begin = 0; begin < losses.size(); begin += step) {
    const std::size_t end = std::min(begin + step, losses.size());
    train.points.emplace_back(static_cast<double>(begin + end) / 2, mean(losses, begin, end));
  }
  for (const Evaluation& evaluation : training.evaluations()) {
    validation.points.emplace_back(static_cast<double>(evaluation.step), evaluation.loss);
  }
  return line_chart_svg({"Loss of a byte-level decoder", "step", "cross-entropy, nats per byte", {train, validation}});
}

void save_all(Training& training, const TrainingText& text, const std::string& folder) {
  save_training(checkpoint_of(folder), training, text);
  save_byte_decoder(folder, training.decoder(), training.vocabulary());
  write_text(folder + "/curve.csv", curve_csv(training));
  write_text(folder + "/curve.svg", curve_svg(training));
}

TrainResult result_of(Training& training, const TrainProgress& progress) {
  TrainResult result;
  result.decoder = training.decoder().config();
  result.training = training.config();
  result.parameters = training.decoder().parameter_count();
  const std::vector<double>& losses = training.losses();
  result.train_loss = mean(losses, losses.size() - std::min(losses.size(), kLastSteps), losses.size());
  result.evaluations = training.evaluations();
  result.validation_loss = result.evaluations.back().loss;
  result.steps = progress.steps();
  result.seconds = progress.seconds();
  result.tokens_per_second = progress.tokens_per_second(training);
  return result;
}

}  // namespace

std::string read_text(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string checkpoint_of(const std::string& folder) { return folder + "/checkpoint.safetensors"; }

bool holds_run(const std::string& folder) { return std::filesystem::exists(checkpoint_of(folder)); }

void make_run_folder(const std::string& folder, std::initializer_list<const char*> files) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
    throw SystemFileError(folder, "is not a folder", ENOTDIR);
  }
  std::filesystem::create_directories(folder, error);
  if (error) throw SystemFileError(folder, "cannot be made: " + error.message(), error.value());
  for (const char* file : files) remove_stale_temporaries(folder + "/" + file);
}

TrainResult run_training(Training& training, const TrainingText& text, const std::string& folder,
                         const TrainWatch& watch, const CommandContext& context) {
  make_run_folder(folder, {"checkpoint.safetensors", "config.json", "model.safetensors", "curve.csv", "curve.svg"});
  const auto interrupted = [&] { return context.cancel != nullptr && context.cancel->load(std::memory_order_relaxed); };
  Execution evaluating;
  evaluating.cancel = context.cancel;
  TrainProgress progress(context, watch.label, watch.log_every);
  Index saved = training.steps_done();
  try {
    for (;;) {
      if (interrupted()) throw Cancelled();
      if (training.evaluation_due()) {
        training.evaluate(evaluating);
        progress.evaluated(training);
      }
      const Index done = training.steps_done();
      if (watch.save_every > 0 && done > saved && done % watch.save_every == 0) {
        save_all(training, text, folder);
        saved = done;
      }
      if (training.is_done()) break;
      // A step is never cut short: what is saved is the state between two of them.
      const auto begin = std::chrono::steady_clock::now();
      training.step();
      progress.step(training, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  } catch (const Cancelled&) {
    progress.clear();
    save_all(training, text, folder);
    if (context.messages != nullptr) {
      *context.messages << fmt::format("{}saved after {} of {} steps; headwise train --resume {} goes on\n",
                                       watch.label.empty() ? "" : watch.label + ": ", training.steps_done(),
                                       training.config().learning_rate.steps, shell_word(watch.resume));
    }
    throw;
  }
  save_all(training, text, folder);
  TrainResult result = result_of(training, progress);
  result.folder = folder;
  result.text_bytes = static_cast<Index>(text.bytes.size());
  return result;
}

}  // namespace headwise::cli
