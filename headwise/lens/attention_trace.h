// SPDX-License-Identifier: Apache-2.0
// What a model's heads did with some sentences: every layer's queries and keys, from which weights and statistics
// follow. It grows with the length of a sentence, not with its square.
#ifndef HEADWISE_LENS_ATTENTION_TRACE_H_
#define HEADWISE_LENS_ATTENTION_TRACE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/models/decoder.h"
#include "headwise/models/encoder.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// One sentence as a model reads it. Without tokens the ids name themselves.
struct TokenSequence {
  std::vector<std::int64_t> ids;
  std::vector<std::string> tokens;  // none, or one for each id
};

struct TracedLayer {
  Tensor<float, 3> queries;  // (heads, seq, head_dim)
  Tensor<float, 3> keys;     // (kv_heads, seq, head_dim)
};

struct TracedSentence {
  std::vector<std::int64_t> ids;
  std::vector<std::string> tokens;  // as many as ids
  std::vector<TracedLayer> layers;

  Index seq() const { return static_cast<Index>(ids.size()); }
};

struct AttentionTrace {
  std::string model;  // where it was loaded from
  Index layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = false;
  std::vector<TracedSentence> sentences;
};

// Runs each sentence by itself, unpadded: the bits are those of any batch. Throws ArgumentError ("trace: ...") for a
// sentence without ids or with another number of tokens, and as the model's forward does.
AttentionTrace trace_encoder(const Encoder<float>& encoder, std::span<const TokenSequence> sentences,
                             const Execution& execution = {});
AttentionTrace trace_decoder(const Decoder<float>& decoder, std::span<const TokenSequence> sentences,
                             const Execution& execution = {});

// Whether a token marks the end of a part: [SEP], </s>, <|endoftext|>, <sep>.
bool is_separator(std::string_view token);

// One layer of one sentence again, from its queries and keys, bit for bit as in the model.
// weights: (heads, seq, seq), overwritten.
void recompute_weights(const AttentionTrace& trace, Index sentence, Index layer, TensorView<float, 3> weights,
                       const Execution& execution = {});
// One head alone: (seq, seq).
Tensor<float, 2> head_weights(const AttentionTrace& trace, Index sentence, Index layer, Index head,
                              const Execution& execution = {});
// Each view of `statistics` that is given is overwritten; its batch axis is 1.
void recompute_statistics(const AttentionTrace& trace, Index sentence, Index layer,
                          const AttentionStatistics<float>& statistics, const Execution& execution = {});

}  // namespace headwise

#endif  // HEADWISE_LENS_ATTENTION_TRACE_H_
