// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/layer_norm.h"

#include <cmath>

#include "headwise/tensor/shape_check.h"

namespace headwise {

template <class T>
LayerNorm<T>::LayerNorm(Index width, double eps) : weight_(Shape<1>{width}), bias_(Shape<1>{width}), eps_(eps) {
  weight_.fill(T{1});
}

template <class T>
void LayerNorm<T>::apply(TensorView<T, 2> x) const {
  const Index width = weight_.size(0);
  check_shape("layer norm", "x", x, {{"tokens"}, {"width", width}});
  for (Index t = 0; t < x.size(0); ++t) {
    double sum = 0;
    for (Index i = 0; i < width; ++i) sum += static_cast<double>(x(t, i));
    const double mean = sum / static_cast<double>(width);
    // Squares of the differences, not mean(x^2) - mean^2, which cancels when the mean is large.
    double squares = 0;
    for (Index i = 0; i < width; ++i) {
      const double difference = static_cast<double>(x(t, i)) - mean;
      squares += difference * difference;
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps_);
    for (Index i = 0; i < width; ++i) {
      const double normal = (static_cast<double>(x(t, i)) - mean) * factor;
      x(t, i) = static_cast<T>(normal * static_cast<double>(weight_(i)) + static_cast<double>(bias_(i)));
    }
  }
}

template <class T>
void LayerNorm<T>::append_parameters(const std::string& name, std::vector<Parameter<T>>& out) {
  const Index width = weight_.size(0);
  out.push_back({name + ".weight", {width}, weight_.data(), nullptr, {"hidden"}});
  out.push_back({name + ".bias", {width}, bias_.data(), nullptr, {"hidden"}});
}

template class LayerNorm<float>;
template class LayerNorm<double>;

}  // namespace headwise
