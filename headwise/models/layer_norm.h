// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axis, sums in double. The same bits on every
// machine and any number of threads.
#ifndef HEADWISE_MODELS_LAYER_NORM_H_
#define HEADWISE_MODELS_LAYER_NORM_H_

#include <string>
#include <vector>

#include "headwise/layers/linear.h"
#include "headwise/layers/parameter.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// What backward needs of a forward beside its input.
struct LayerNormSaved {
  Tensor<double, 1> mean, factor;  // (tokens,) each; factor = 1 / sqrt(variance + eps)
};

template <class T>
class LayerNorm {
 public:
  // Starts as weight 1, bias 0.
  LayerNorm(Index width, double eps, bool bias = true, Gradients gradients = Gradients::kNone);

  // x: (tokens, width), overwritten with its normalised rows.
  void apply(TensorView<T, 2> x) const;
  // x: (tokens, width), dense -> y: the same shape, dense, overwritten. Fills `saved` when given.
  void forward(TensorView<const T, 2> x, TensorView<T, 2> y, LayerNormSaved* saved, const Execution& execution) const;
  // x, grad_y: (tokens, width), dense. Adds to grad_x (tokens, width), dense, and to the parameters' gradients. Throws
  // StateError without stored gradients.
  void backward(TensorView<const T, 2> x, const LayerNormSaved& saved, TensorView<const T, 2> grad_y,
                TensorView<T, 2> grad_x, const Execution& execution);

  void zero_grad();
  // Appends "<name>.weight" and, where there is one, "<name>.bias", each (width,).
  void append_parameters(const std::string& name, std::vector<Parameter<T>>& out);

 private:
  Tensor<T, 1> weight_, bias_, weight_gradient_, bias_gradient_;
  double eps_;
};

extern template class LayerNorm<float>;
extern template class LayerNorm<double>;

}  // namespace headwise

#endif  // HEADWISE_MODELS_LAYER_NORM_H_
