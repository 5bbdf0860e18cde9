// SPDX-License-Identifier: Apache-2.0
#include "cli/train_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/text_table.h"

namespace headwise::cli {
namespace {

constexpr auto kBetween = std::chrono::milliseconds(100);  // two pictures of the line
constexpr int kBar = 24;

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<Index>(std::llround(std::max(0.0, seconds)));
  const Index hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

TrainProgress::TrainProgress(const CommandContext& context, const std::string& label, Index log_every)
    : out_(context.messages),
      terminal_(context.message_terminal),
      label_(label.empty() ? "" : label + ": "),
      log_every_(log_every) {}

double TrainProgress::tokens_per_second(const Training& training) const {
  return seconds_ == 0 ? 0 : static_cast<double>(steps_ * training.tokens_per_step()) / seconds_;
}

std::string TrainProgress::numbers(const Training& training) const {
  const Index left = training.config().learning_rate.steps - training.steps_done();
  return fmt::format("loss {}  {:.0f} tokens/s  {} left", number_text(loss_, 4), tokens_per_second(training),
                     clock_text(seconds_ / static_cast<double>(steps_) * static_cast<double>(left)));
}

void TrainProgress::step(const Training& training, double seconds) {
  ++steps_;
  seconds_ += seconds;
  const double loss = training.losses().back();
  loss_ = steps_ == 1 ? loss : loss_ + 0.05 * (loss - loss_);
  if (out_ == nullptr) return;
  const Index done = training.steps_done(), all = training.config().learning_rate.steps;
  if (log_every_ > 0 && done % log_every_ == 0) {
    clear();
    *out_ << fmt::format("{}step {}  {}\n", label_, done, numbers(training)) << std::flush;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_.lively || now < next_) return;
  next_ = now + kBetween;
  std::string bar;
  for (int n = 0; n < kBar; ++n) bar += n < kBar * done / all ? "█" : "░";
  const std::string line = fmt::format("{}{} {}/{}  {}", label_, bar, done, all, numbers(training));
  *out_ << "\r\x1b[K" << cut_to_width(line, terminal_.width - 1) << std::flush;
  shown_ = true;
}

void TrainProgress::evaluated(const Training& training) {
  if (out_ == nullptr || (log_every_ == 0 && !terminal_.lively)) return;
  clear();
  const Evaluation& last = training.evaluations().back();
  *out_ << fmt::format("{}step {}  validation loss {}\n", label_, last.step, number_text(last.loss, 4)) << std::flush;
}

void TrainProgress::clear() {
  if (!shown_) return;
  *out_ << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace headwise::cli
