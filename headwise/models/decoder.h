// SPDX-License-Identifier: Apache-2.0
// A GPT-type decoder around the attention layer, forward and backward: token and position embedding, blocks of causal
// attention and feed-forward, each behind a layer norm and added to what came in, a last norm and the output
// projection.
#ifndef HEADWISE_MODELS_DECODER_H_
#define HEADWISE_MODELS_DECODER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/layers/attention_layer.h"
#include "headwise/models/decoder_activations.h"
#include "headwise/models/decoder_config.h"
#include "headwise/models/decoder_state.h"
#include "headwise/models/layer_norm.h"
#include "headwise/models/layer_trace.h"

namespace headwise {

// Parameters carry nanoGPT's names and shapes: transformer.wte.weight (vocab, hidden), transformer.wpe.weight,
// transformer.h.{i}.ln_1.weight, transformer.h.{i}.attn.c_attn.weight (3 * hidden, hidden; queries, keys, values),
// .attn.c_proj, .ln_2, .mlp.c_fc, .mlp.c_proj, transformer.ln_f, and untied lm_head.weight.
template <class T>
class Decoder {
 public:
  // All matrices zero, layer norms the identity: to be initialised or loaded. Throws as check_config does.
  explicit Decoder(const DecoderConfig& config, Gradients gradients = Gradients::kNone);

  const DecoderConfig& config() const { return config_; }
  Index head_dim() const { return config_.hidden / config_.heads; }

  // Matrices and embeddings normal with deviation 0.02, the projections back onto the residual stream 0.02 / sqrt(2 *
  // layers), biases 0, norms the identity. A function of seed, parameter and element: the same bits on every machine.
  void initialize(std::uint64_t seed);

  // ids: (batch, seq), each in 0..vocab - 1 -> logits (batch, seq, vocab). Fills `saved` when given. Throws ShapeError
  // or ArgumentError "Decoder: ...".
  Tensor<T, 3> forward(TensorView<const std::int64_t, 2> ids, const DecoderDropout& dropout = {},
                       DecoderActivations<T>* saved = nullptr, std::span<const LayerTrace<T>> traces = {},
                       const Execution& execution = {}) const;
  // grad_logits: (batch, seq, vocab), dense. Adds to the parameters' gradients. Uses up the working memory in `saved`
  // but none of what was saved. Throws StateError without a forward or without gradients.
  void backward(DecoderActivations<T>& saved, TensorView<const T, 3> grad_logits, const Execution& execution = {});

  // Mean cross-entropy of (batch, seq) targets, without ever holding all logits: they are made and used up in pieces of
  // at most about kLogitPiece numbers. `room` is working memory that the next call uses again. Throws as forward does,
  // and ArgumentError for a target out of range.
  double loss(TensorView<const std::int64_t, 2> ids, TensorView<const std::int64_t, 2> targets,
              DecoderActivations<T>& room, const Execution& execution = {}) const;
  // The same with dropout, and adds the gradients of the mean. Everything between forward and backward lies in `saved`.
  double loss_and_gradients(TensorView<const std::int64_t, 2> ids, TensorView<const std::int64_t, 2> targets,
                            const DecoderDropout& dropout, DecoderActivations<T>& saved,
                            const Execution& execution = {});
  static constexpr Index kLogitPiece = Index{1} << 21;

  // An empty memory of what was decoded so far, for sequences of up to config().positions tokens.
  DecoderState<T> start(Index batch = 1) const;
  // Appends ids (batch, tokens) to what `state` holds and gives the logits behind the last of them, (batch, vocab): bit
  // for bit those of forward over the whole sequence. Throws as forward does, before `state` changes.
  Tensor<T, 2> decode(TensorView<const std::int64_t, 2> ids, DecoderState<T>& state,
                      const Execution& execution = {}) const;

  // Valid until the decoder is moved or destroyed.
  std::vector<Parameter<T>> parameters();
  Index parameter_count();
  void zero_grad();
  // Copies by name; stored masks are ignored, and a tied model's lm_head.weight.
  // Throws as load_parameters does ("Decoder.load: ...").
  void load(std::span<const NamedTensor> tensors);
  std::vector<NamedTensor> state();

 private:
  struct Block {
    LayerNorm<T> norm_1;
    AttentionLayer<T> attention;
    LayerNorm<T> norm_2;
    Linear<T> wide, narrow;
  };

  Linear<T>& head() { return config_.tied ? words_ : head_; }
  const Linear<T>& head() const { return config_.tied ? words_ : head_; }
  void check_ids(TensorView<const std::int64_t, 2> ids, Index held) const;
  // Everything up to the last norm, whose output lies in `saved.normed`.
  void run(TensorView<const std::int64_t, 2> ids, const DecoderDropout& dropout, DecoderActivations<T>& saved,
           std::span<const LayerTrace<T>> traces, const Execution& execution) const;
  void run_block(Index layer, const DecoderDropout& dropout, DecoderActivations<T>& saved,
                 const LayerOutputs<T>& extras, TensorView<T, 3> out, const Execution& execution) const;
  // From saved.grad_normed down to the embeddings.
  void backward_from_norm(DecoderActivations<T>& saved, const Execution& execution);
  void backward_block(Index layer, DecoderActivations<T>& saved, const Execution& execution);
  void decode_block(Index layer, DecoderState<T>& state, TensorView<T, 3> x, const Execution& execution) const;

  DecoderConfig config_;
  Gradients gradients_;
  Linear<T> words_, positions_;  // (vocab, hidden), (positions, hidden)
  std::vector<Block> blocks_;
  LayerNorm<T> last_norm_;
  Linear<T> head_;  // untied: (vocab, hidden)
};

extern template class Decoder<float>;
extern template class Decoder<double>;

}  // namespace headwise

#endif  // HEADWISE_MODELS_DECODER_H_
