// SPDX-License-Identifier: Apache-2.0
// RMS norm of projected queries or keys: its weight, forward and backward.
#ifndef HEADWISE_LAYERS_PROJECTION_NORM_H_
#define HEADWISE_LAYERS_PROJECTION_NORM_H_

#include <string>
#include <vector>

#include "headwise/layers/linear.h"
#include "headwise/layers/parameter.h"
#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// The weight of the queries or of the keys, and its gradient.
template <class T>
class ProjectionNorm {
 public:
  ProjectionNorm() = default;
  // Weight (width,), at first 1.
  ProjectionNorm(Index width, double eps, Gradients gradients);

  explicit operator bool() const { return static_cast<bool>(weight_); }

  // rows: (batch, seq, n * width), dense along its last axis, overwritten.
  void forward(TensorView<T, 3> rows, const Execution& execution) const;
  // before: (batch, seq, n * width), what forward was given; grad: the same shape, grad_y, overwritten by grad_x. Adds
  // to the weight's gradient.
  void backward(TensorView<const T, 3> before, TensorView<T, 3> grad, const Execution& execution);

  void fill_ones();
  void zero_grad();
  // Appends "<name>.weight".
  void append_parameters(const std::string& name, std::vector<Parameter<T>>& out);

 private:
  Tensor<T, 1> weight_, weight_gradient_;
  double eps_ = 0;
};

extern template class ProjectionNorm<float>;
extern template class ProjectionNorm<double>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_PROJECTION_NORM_H_
