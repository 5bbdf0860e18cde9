// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/layers/attention_config.h"
#include "headwise/models/random_streams.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

// Sequences that are evaluated at once.
constexpr Index kEvaluationBatch = 32;

DecoderConfig with_vocab(DecoderConfig config, const ByteVocabulary& vocabulary) {
  config.vocab = vocabulary.size();
  return config;
}

const TrainingConfig& checked(const TrainingConfig& config) {
  check_config(config);
  return config;
}

std::vector<std::uint8_t> encoded(const ByteVocabulary& vocabulary, std::string_view text) {
  std::array<std::uint8_t, 256> token{};
  for (std::size_t n = 0; n < vocabulary.bytes().size(); ++n) {
    token[vocabulary.bytes()[n]] = static_cast<std::uint8_t>(n);
  }
  std::vector<std::uint8_t> tokens;
  tokens.reserve(text.size());
  for (const char letter : text) tokens.push_back(token[static_cast<std::uint8_t>(letter)]);
  return tokens;
}

// In [0, count), each as likely as the others to 2^-64.
Index scaled(std::uint64_t word, Index count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<Index>((static_cast<Wide>(word) * static_cast<Wide>(count)) >> 64);
}

// One sequence and what follows each of its tokens.
void copy_sequence(const std::vector<std::uint8_t>& tokens, Index first, Index row, TensorView<std::int64_t, 2> ids,
                   TensorView<std::int64_t, 2> targets) {
  for (Index i = 0; i < ids.size(1); ++i) {
    ids(row, i) = tokens[first + i];
    targets(row, i) = tokens[first + i + 1];
  }
}

}  // namespace

Training::Training(DecoderConfig decoder, const TrainingConfig& config, std::string_view text)
    : config_(checked(config)),
      vocabulary_(ByteVocabulary::of(text)),
      tokens_(encoded(vocabulary_, text)),
      split_(static_cast<Index>(tokens_.size()) * 9 / 10),
      decoder_(with_vocab(std::move(decoder), vocabulary_), Gradients::kStored),
      adamw_(decoder_.parameters(), config.adamw),
      parameters_(decoder_.parameters()) {
  const Index context = decoder_.config().positions, size = static_cast<Index>(tokens_.size());
  if (split_ <= context || size - split_ <= context) {
    throw ArgumentError(
        fmt::format("training: the text has {} bytes; nine tenths of it and one tenth must each be longer than "
                    "context={}: at least {} bytes",
                    size, context, 10 * (context + 1)));
  }
  ids_ = Tensor<std::int64_t, 2>(Shape<2>{config.batch, context});
  targets_ = Tensor<std::int64_t, 2>(ids_.shape());
  decoder_.initialize(config.seed);
}

bool Training::evaluation_due() const {
  const Index every = config_.evaluate_every;
  if (!is_done() && (every == 0 || steps_done() % every != 0)) return false;
  return evaluations_.empty() || evaluations_.back().step != steps_done();
}

void Training::draw_batch(Index step, TensorView<std::int64_t, 2> ids, TensorView<std::int64_t, 2> targets) const {
  const Axis batch{"batch", config_.batch}, context{"positions", ids_.size(1)};
  check_shape("training", "ids", ids, {batch, context});
  check_shape("training", "targets", targets, {batch, context});
  for (Index row = 0; row < config_.batch; ++row) {
    const auto words = draw_from(RandomStream::kBatches, config_.seed, static_cast<std::uint64_t>(step),
                                 static_cast<std::uint32_t>(row));
    copy_sequence(tokens_, scaled(wide_word(words), split_ - ids_.size(1)), row, ids, targets);
  }
}

double Training::step(const Execution& execution) {
  draw_batch(steps_done(), ids_.view(), targets_.view());
  decoder_.zero_grad();
  const DecoderDropout dropout{true, config_.seed, static_cast<std::uint64_t>(steps_done())};
  const double loss = decoder_.loss_and_gradients(ids_.cview(), targets_.cview(), dropout, activations_, execution);
  const double norm = gradient_norm<float>(parameters_, execution);
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    throw StateError(
        fmt::format("training: at step {} the loss is {} and the gradient norm {}; a lower learning rate "
                    "or a smaller clip may help",
                    steps_done(), loss, norm));
  }
  adamw_.step(steps_done() + 1, config_.learning_rate.at(steps_done()), clip_scale(norm, config_.clip), execution);
  losses_.push_back(loss);
  return loss;
}

double Training::evaluate(const Execution& execution) {
  const Index context = ids_.size(1), count = (static_cast<Index>(tokens_.size()) - split_ - 1) / context;
  double sum = 0;
  for (Index first = 0; first < count; first += kEvaluationBatch) {
    const Index rows = std::min(kEvaluationBatch, count - first);
    Tensor<std::int64_t, 2> ids(Shape<2>{rows, context}), targets(Shape<2>{rows, context});
    for (Index row = 0; row < rows; ++row) {
      copy_sequence(tokens_, split_ + (first + row) * context, row, ids.view(), targets.view());
    }
    sum += decoder_.loss(ids.cview(), targets.cview(), evaluation_room_, execution) * static_cast<double>(rows);
    if (execution.cancelled()) throw Cancelled();
  }
  const double loss = sum / static_cast<double>(count);
  evaluations_.push_back({steps_done(), loss});
  return loss;
}

void Training::resume(std::vector<double> losses, std::vector<Evaluation> evaluations) {
  losses_ = std::move(losses);
  evaluations_ = std::move(evaluations);
}

}  // namespace headwise
