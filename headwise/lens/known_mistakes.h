// SPDX-License-Identifier: Apache-2.0
// The known mistakes as changes of a layer's numbers and of the recipe by which they are worked on. Not installed.
#ifndef HEADWISE_LENS_KNOWN_MISTAKES_H_
#define HEADWISE_LENS_KNOWN_MISTAKES_H_

#include <span>

#include "headwise/lens/plain_attention.h"

namespace headwise {

struct KnownMistake {
  const char* name;
  const char* what;
  // Makes the mistake; false where this layer cannot have it.
  bool (*make)(PlainLayer& layer, AttentionRecipe& recipe);
};

std::span<const KnownMistake> known_mistakes();

// How well the output of each row can be explained by weights that were dropped and the others scaled up.
struct DroppedWeights {
  bool told = false;     // enough weights can be found from the output
  bool missing = false;  // some are 0
  bool fits = false;     // each is 0 or larger by one and the same factor
  double factor = 1;     // 1 / (1 - p)
  double distance = 0;   // root mean square of what remains, as a multiple of the right weight
};

// One entry of a batch; got: (seq, d_out).
DroppedWeights find_dropped_weights(const PlainLayer& layer, const PlainRun& right, TensorView<const double, 2> got);

}  // namespace headwise

#endif  // HEADWISE_LENS_KNOWN_MISTAKES_H_
