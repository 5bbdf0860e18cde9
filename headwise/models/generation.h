// SPDX-License-Identifier: Apache-2.0
// Tokens one after the other from a decoder.
#ifndef HEADWISE_MODELS_GENERATION_H_
#define HEADWISE_MODELS_GENERATION_H_

#include <cstdint>
#include <span>

#include "headwise/models/decoder.h"

namespace headwise {

struct Sampling {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  Index top_k = 0;         // draw among the k likeliest; 0: among all
  std::uint64_t seed = 0;
};

// Throws ArgumentError "generate: ...".
void check_sampling(const Sampling& sampling);

// One token by its logits (vocab,): a function of logits, seed and `index`, the number of the draw. Throws StateError
// when a logit is NaN or infinity.
std::int64_t sample_token(std::span<const float> logits, const Sampling& sampling, std::uint64_t index);

// Draws `count` tokens behind the prompt (one token at least) and hands each to `take` at once. The model sees its last
// positions tokens; when they are full, it goes on with the newer half of them. Throws ArgumentError, and as
// Decoder::decode does.
void generate(const Decoder<float>& decoder, std::span<const std::int64_t> prompt, Index count,
              const Sampling& sampling, FunctionRef<void(std::int64_t)> take, const Execution& execution = {});

}  // namespace headwise

#endif  // HEADWISE_MODELS_GENERATION_H_
