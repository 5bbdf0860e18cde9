// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/learning_rate.h"

#include "headwise/models/half_turns.h"

namespace headwise {

double LearningRate::at(Index step) const {
  if (step < warm_up) return highest * static_cast<double>(step + 1) / static_cast<double>(warm_up + 1);
  if (step >= steps) return last;
  const double share = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
  return last + 0.5 * (1 + cos_half_turns(share)) * (highest - last);
}

}  // namespace headwise
