// SPDX-License-Identifier: Apache-2.0
// A small encoder with random weights and a padded batch for it.
#ifndef HEADWISE_TESTS_SUPPORT_ENCODER_H_
#define HEADWISE_TESTS_SUPPORT_ENCODER_H_

#include <algorithm>
#include <vector>

#include "headwise/models/encoder.h"
#include "headwise/runtime/random.h"

namespace headwise::testing {

inline EncoderConfig small_config() {
  EncoderConfig config;
  config.layers = 2;
  config.hidden = 6;
  config.heads = 2;
  config.intermediate = 10;
  config.vocab = 11;
  config.positions = 8;
  config.type_vocab = 2;
  return config;
}

template <class T>
Encoder<T> random_encoder(const EncoderConfig& config = small_config()) {
  Encoder<T> encoder(config);
  std::uint64_t seed = 70;
  for (Parameter<T>& p : encoder.parameters()) {
    std::vector<float> values(p.elements());
    TorchGenerator(++seed).fill_uniform(std::span<float>(values), -0.7, 0.7);
    std::copy(values.begin(), values.end(), p.value);
  }
  return encoder;
}

inline constexpr Index kPadding = 9999;  // no such word: reading it would be an error

// Three sequences of 5, 3 and 0 tokens.
struct Sample {
  Tensor<std::int64_t, 2> ids{Shape<2>{3, 5}}, types{Shape<2>{3, 5}};
  std::vector<Index> lengths{5, 3, 0};

  Sample() {
    ids.fill(kPadding);
    types.fill(kPadding);
    for (Index b = 0; b < 3; ++b) {
      for (Index i = 0; i < lengths[b]; ++i) {
        ids(b, i) = (7 * b + 3 * i + 1) % 11;
        types(b, i) = i >= 2;
      }
    }
  }
  EncoderInputs inputs() const { return {ids.cview(), lengths, types.cview()}; }
  std::vector<Index> row(const Tensor<std::int64_t, 2>& source, Index b) const {
    return {source.data() + b * 5, source.data() + b * 5 + lengths[b]};
  }
};

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_ENCODER_H_
