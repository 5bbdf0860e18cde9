// SPDX-License-Identifier: Apache-2.0
// Training a byte-level decoder: batches that are a function of seed and step, loss, gradients, clipping, AdamW. A step
// depends on nothing but the state before it, so a run that was interrupted goes on with the same bits.
#ifndef HEADWISE_MODELS_TRAINING_H_
#define HEADWISE_MODELS_TRAINING_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "headwise/models/adamw.h"
#include "headwise/models/byte_text.h"
#include "headwise/models/decoder.h"
#include "headwise/models/learning_rate.h"

namespace headwise {

struct TrainingConfig {
  Index batch = 12;  // sequences a step
  LearningRate learning_rate;
  AdamwConfig adamw{.beta2 = 0.99};
  double clip = 1;         // largest gradient norm; 0: none
  std::uint64_t seed = 0;  // of weights, batches and dropout
  // Evaluations come before step 0 and after every so many steps; 0: only when all steps are done.
  Index evaluate_every = 500;

  bool operator==(const TrainingConfig&) const = default;
};

// Throws ArgumentError "training: ...".
void check_config(const TrainingConfig& config);

struct Evaluation {
  Index step;   // steps done before it
  double loss;  // mean over the validation part
};

class Training {
 public:
  // The first nine tenths of the text are trained on, the rest validates; the vocabulary is the bytes that occur.
  // decoder.vocab is set from it, decoder.positions is the length of a training sequence. Throws as the configs' checks
  // do, and ArgumentError for a text too short for one sequence in either part.
  Training(DecoderConfig decoder, const TrainingConfig& config, std::string_view text);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  const TrainingConfig& config() const { return config_; }
  const ByteVocabulary& vocabulary() const { return vocabulary_; }
  Decoder<float>& decoder() { return decoder_; }
  Adamw<float>& adamw() { return adamw_; }

  // The loss of every step so far, and every evaluation: the learning curve.
  const std::vector<double>& losses() const { return losses_; }
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }
  Index steps_done() const { return static_cast<Index>(losses_.size()); }
  Index tokens_per_step() const { return config_.batch * decoder_.config().positions; }

  bool is_done() const { return steps_done() == config_.learning_rate.steps; }
  // Whether an evaluation belongs here and is not there yet.
  bool evaluation_due() const;

  // What step number `step` learns from: ids and targets, (batch, positions) each, overwritten.
  void draw_batch(Index step, TensorView<std::int64_t, 2> ids, TensorView<std::int64_t, 2> targets) const;

  // One step; gives the loss of its batch. Throws StateError when that is not finite: the weights are then those before
  // the step.
  double step(const Execution& execution = {});
  // Mean cross-entropy over the validation part, cut into sequences one behind the other (a rest is left out).
  double evaluate(const Execution& execution = {});

  // Takes up a run where it was: weights and moments are loaded separately.
  void resume(std::vector<double> losses, std::vector<Evaluation> evaluations);

 private:
  TrainingConfig config_;
  ByteVocabulary vocabulary_;
  std::vector<std::uint8_t> tokens_;
  Index split_;  // where validation begins
  Decoder<float> decoder_;
  Adamw<float> adamw_;
  std::vector<Parameter<float>> parameters_;
  DecoderActivations<float> activations_, evaluation_room_;
  Tensor<std::int64_t, 2> ids_, targets_;
  std::vector<double> losses_;
  std::vector<Evaluation> evaluations_;
};

}  // namespace headwise

#endif  // HEADWISE_MODELS_TRAINING_H_
