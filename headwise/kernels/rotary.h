// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: pairs of a head's numbers turned by angles that grow with the token's position. Source:
// Su et al., "RoFormer" (arXiv 2104.09864). Not installed.
#ifndef HEADWISE_KERNELS_ROTARY_H_
#define HEADWISE_KERNELS_ROTARY_H_

#include <span>

#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct SineCosine {
  double sine = 0, cosine = 1;
};

// sin and cos of position * frequency, each to about 1e-16, by IEEE operations alone; |position * frequency| < 2^42.
SineCosine turn_of(double position, double frequency);

// exp(-exponent * ln(base)), base > 1, exponent >= 0, to about 4e-15 relative, by IEEE operations alone.
double falling_power(double base, double exponent);

// ln(x), x > 0, by IEEE operations alone.
double natural_logarithm(double x);

struct RotaryTurns {
  std::span<const double> frequencies;  // radians per token, one a pair; 2 * count <= head_dim, what is beyond stays
  bool interleaved = false;             // pairs (2 i, 2 i + 1), or (i, i + count)
  bool backwards = false;               // the transpose, which takes gradients back
  std::span<const Index> offsets;       // token t stands at t + offset: one for all, or (batch,)
  double amplitude = 1;                 // both sine and cosine are multiplied by it
};

// x: (batch, seq, heads, head_dim), any strides, turned in place: (a, b) -> (a c - b s, b c + a s), where c and s are
// rounded once to T and so is each product and sum.
template <class T>
void turn_pairs(TensorView<T, 4> x, const RotaryTurns& turns, const Execution& execution);

extern template void turn_pairs(TensorView<float, 4>, const RotaryTurns&, const Execution&);
extern template void turn_pairs(TensorView<double, 4>, const RotaryTurns&, const Execution&);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ROTARY_H_
