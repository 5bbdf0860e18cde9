// SPDX-License-Identifier: Apache-2.0
// How the learning rate goes: a straight rise, then half a cosine down.
#ifndef HEADWISE_MODELS_LEARNING_RATE_H_
#define HEADWISE_MODELS_LEARNING_RATE_H_

#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct LearningRate {
  double highest = 1e-3;
  double last = 1e-4;
  Index warm_up = 100;  // steps of the rise
  Index steps = 2000;   // where the cosine ends

  bool operator==(const LearningRate&) const = default;
  // At step n, counted from 0, as nanoGPT has it: highest * (n + 1) / (warm_up + 1) during the rise; `last` from
  // `steps` on. The same bits on every machine.
  double at(Index step) const;
};

}  // namespace headwise

#endif  // HEADWISE_MODELS_LEARNING_RATE_H_
