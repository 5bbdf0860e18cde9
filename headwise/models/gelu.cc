// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/gelu.h"

#include <cmath>
#include <numbers>

namespace headwise {

template <class T>
void apply_gelu(TensorView<T, 2> x) {
  for (Index t = 0; t < x.size(0); ++t) {
    for (Index i = 0; i < x.size(1); ++i) {
      const double value = static_cast<double>(x(t, i));
      // erfc keeps its relative accuracy where 1 + erf cancels, at large negative values.
      x(t, i) = static_cast<T>(0.5 * value * std::erfc(-value / std::numbers::sqrt2));
    }
  }
}

template void apply_gelu(TensorView<float, 2>);
template void apply_gelu(TensorView<double, 2>);

}  // namespace headwise
