// SPDX-License-Identifier: Apache-2.0
// Dropout of a tensor's elements: a pure function of (seed, call, site, element), drawn again in backward.
#ifndef HEADWISE_MODELS_DROPOUT_H_
#define HEADWISE_MODELS_DROPOUT_H_

#include <cstdint>
#include <span>

#include "headwise/runtime/execution.h"

namespace headwise {

struct ElementDropout {
  double probability = 0;  // in [0, 1), in steps of 2^-16
  std::uint64_t seed = 0;
  std::uint64_t call = 0;  // count the training forwards here
  std::uint32_t site = 0;  // which place of the model
};

// Sets dropped values to 0 and multiplies kept ones by one over the quantised keep probability; a gradient goes through
// the same call. Element n draws the 16-bit word n mod 128 / 16 of Philox with the counter n / 128 * 16 + n mod 16.
template <class T>
void apply_dropout(const ElementDropout& rule, std::span<T> values, const Execution& execution = {});

extern template void apply_dropout(const ElementDropout&, std::span<float>, const Execution&);
extern template void apply_dropout(const ElementDropout&, std::span<double>, const Execution&);

}  // namespace headwise

#endif  // HEADWISE_MODELS_DROPOUT_H_
