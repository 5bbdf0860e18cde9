// SPDX-License-Identifier: Apache-2.0
// Heads of a trained model switched off or scaled, and what that does to its output.
#ifndef HEADWISE_LENS_ABLATION_H_
#define HEADWISE_LENS_ABLATION_H_

#include <span>
#include <vector>

#include "headwise/lens/attention_trace.h"
#include "headwise/models/decoder.h"
#include "headwise/models/encoder.h"

namespace headwise {

// A head's context is multiplied by `scale` before the output projection: 0 switches it off, 1 leaves the bits alone.
struct HeadScale {
  Index layer = 0, head = 0;
  double scale = 0;
};

// Root mean square of the difference of the outputs (hidden states of an encoder, logits of a decoder) with and without
// the change, in units of the unchanged ones', over every token of every sentence.
struct HeadEffect {
  Index layer = 0, head = 0;
  double effect = 0;
};

// Multiplies the head's columns of the output projection, which is the same as to multiply its context. Throws
// ArgumentError "ablation: ..." for a layer or head that the model has not, and a scale that is not finite.
void scale_heads(Encoder<float>& encoder, std::span<const HeadScale> scales);
void scale_heads(Decoder<float>& decoder, std::span<const HeadScale> scales);

// The effect of all the scales at once. The model is as before when it returns.
double effect_of(Encoder<float>& encoder, std::span<const TokenSequence> sentences, std::span<const HeadScale> scales,
                 const Execution& execution = {});
double effect_of(Decoder<float>& decoder, std::span<const TokenSequence> sentences, std::span<const HeadScale> scales,
                 const Execution& execution = {});

// Each head switched off alone, in turn; the greatest effect first.
std::vector<HeadEffect> rank_heads(Encoder<float>& encoder, std::span<const TokenSequence> sentences,
                                   const Execution& execution = {});
std::vector<HeadEffect> rank_heads(Decoder<float>& decoder, std::span<const TokenSequence> sentences,
                                   const Execution& execution = {});

}  // namespace headwise

#endif  // HEADWISE_LENS_ABLATION_H_
