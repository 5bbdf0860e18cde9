// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axis, sums in double.
#ifndef HEADWISE_MODELS_LAYER_NORM_H_
#define HEADWISE_MODELS_LAYER_NORM_H_

#include <string>
#include <vector>

#include "headwise/layers/parameter.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

template <class T>
class LayerNorm {
 public:
  // Starts as weight 1, bias 0.
  LayerNorm(Index width, double eps);

  // x: (tokens, width), overwritten with its normalised rows.
  void apply(TensorView<T, 2> x) const;
  // Appends "<name>.weight" and "<name>.bias", each (width,).
  void append_parameters(const std::string& name, std::vector<Parameter<T>>& out);

 private:
  Tensor<T, 1> weight_, bias_;
  double eps_;
};

extern template class LayerNorm<float>;
extern template class LayerNorm<double>;

}  // namespace headwise

#endif  // HEADWISE_MODELS_LAYER_NORM_H_
