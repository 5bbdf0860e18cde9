// SPDX-License-Identifier: Apache-2.0
// Published numbers that a right implementation must give: six tokens of three inputs, and what attention makes of
// them.
#ifndef HEADWISE_TESTS_SUPPORT_GOLDEN_H_
#define HEADWISE_TESTS_SUPPORT_GOLDEN_H_

#include "tests/support/tensors.h"

namespace headwise::testing {

inline constexpr double kGoldenTolerance = 5e-5;  // the numbers have four decimals

inline const Rows kTokens{{.43, .15, .89}, {.55, .87, .66}, {.57, .85, .64},
                          {.22, .58, .33}, {.77, .25, .10}, {.05, .80, .55}};

// The tokens twice: (2, 6, 3).
template <class T>
Tensor<T, 3> golden_batch() {
  Tensor<T, 3> batch(Shape<3>{2, 6, 3});
  const Tensor<T, 2> tokens = matrix<T>(kTokens);
  for (Index b = 0; b < 2; ++b) copy_elements(tokens.view(), batch.view().select(0, b));
  return batch;
}

// One causal head, seed 123.
inline const Rows kCausalHead{{-.4519, .2216},  {-.5874, .0058},  {-.6300, -.0632},
                              {-.5675, -.0843}, {-.5526, -.0981}, {-.5299, -.1081}};

// Two such heads of width 2 side by side, seed 123.
inline const Rows kTwoHeads{{-.4519, .2216, .4772, .1063},  {-.5874, .0058, .5891, .3257},
                            {-.6300, -.0632, .6202, .3860}, {-.5675, -.0843, .5478, .3589},
                            {-.5526, -.0981, .5321, .3428}, {-.5299, -.1081, .5077, .3493}};

// MultiHeadAttention(3, 2, num_heads=2), seed 123.
inline const Rows kMultiHead{{.3190, .4858}, {.2943, .3897}, {.2856, .3593},
                             {.2693, .3873}, {.2639, .3928}, {.2575, .4028}};

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_GOLDEN_H_
