// SPDX-License-Identifier: Apache-2.0
// A BERT-type encoder around the attention layer, forward only: embeddings, then blocks of attention and feed-forward,
// each with a residual and a layer norm after it.
#ifndef HEADWISE_MODELS_ENCODER_H_
#define HEADWISE_MODELS_ENCODER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/layers/attention_layer.h"
#include "headwise/models/encoder_config.h"
#include "headwise/models/layer_norm.h"
#include "headwise/models/layer_trace.h"

namespace headwise {

struct EncoderInputs {
  TensorView<const std::int64_t, 2> ids;            // (batch, seq)
  std::span<const Index> lengths{};                 // (batch,), each in 0..seq; empty: every token counts
  TensorView<const std::int64_t, 2> token_types{};  // (batch, seq); not given: all 0
};

// Parameters carry the names of Hugging Face's BertModel: embeddings.word_embeddings.weight,
// encoder.layer.{n}.attention.self.query.weight, ..., encoder.layer.{n}.output.LayerNorm.bias.
template <class T>
class Encoder {
 public:
  // All weights zero, layer norms the identity: to be loaded. Throws as check_config does.
  explicit Encoder(const EncoderConfig& config);

  const EncoderConfig& config() const { return config_; }
  Index head_dim() const { return config_.hidden / config_.heads; }

  // Hidden states (batch, seq, hidden); 0 at padding, whose ids are not read. Throws ShapeError or ArgumentError
  // "Encoder: ...".
  Tensor<T, 3> forward(const EncoderInputs& inputs, std::span<const LayerTrace<T>> traces = {},
                       const Execution& execution = {}) const;

  // Valid until the encoder is moved or destroyed; without gradients.
  std::vector<Parameter<T>> parameters();
  Index parameter_count();
  // Copies by name, with or without the prefix "bert."; pooler.*, cls.* and embeddings.position_ids are ignored.
  // Throws as load_parameters does ("Encoder.load: ...").
  void load(std::span<const NamedTensor> tensors);
  std::vector<NamedTensor> state();

 private:
  struct Block {
    AttentionLayer<T> attention;
    LayerNorm<T> attention_norm;
    Linear<T> intermediate, output;
    LayerNorm<T> output_norm;
  };

  void check_inputs(const EncoderInputs& inputs) const;
  void embed(const EncoderInputs& inputs, TensorView<T, 3> hidden) const;
  void run_block(const Block& block, const ForwardOptions<T>& options, TensorView<T, 3> hidden,
                 const LayerOutputs<T>& extras, const Execution& execution) const;

  EncoderConfig config_;
  Tensor<T, 2> words_, positions_, types_;
  LayerNorm<T> embedding_norm_;
  std::vector<Block> blocks_;
};

extern template class Encoder<float>;
extern template class Encoder<double>;

}  // namespace headwise

#endif  // HEADWISE_MODELS_ENCODER_H_
