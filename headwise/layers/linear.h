// SPDX-License-Identifier: Apache-2.0
// A projection that owns its weight, bias and gradients. A range of its rows is itself a projection, so that queries,
// keys and values (and the heads within them) can share one stacked block.
#ifndef HEADWISE_LAYERS_LINEAR_H_
#define HEADWISE_LAYERS_LINEAR_H_

#include <span>
#include <string>
#include <vector>

#include "headwise/layers/parameter.h"
#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// Output rows [first, first + count) of a projection.
struct RowRange {
  Index first = 0, count = 0;
};

enum class Gradients : bool { kNone, kStored };

template <class T>
class Linear {
 public:
  Linear() = default;
  // Weight (d_out, d_in) and bias (d_out,) start at zero. Without stored gradients backward_weight may not be called.
  Linear(Index d_in, Index d_out, bool bias, Gradients gradients);

  Index d_in() const { return weight_.size(1); }
  Index d_out() const { return weight_.size(0); }
  bool has_bias() const { return static_cast<bool>(bias_); }
  RowRange all_rows() const { return {0, d_out()}; }

  // x: (tokens, d_in) -> out: (tokens, rows.count), overwritten.
  void forward(RowRange rows, TensorView<const T, 2> x, TensorView<T, 2> out, const Execution& execution) const;
  // grad_out: (tokens, rows.count) -> grad_x: (tokens, d_in), overwritten.
  void backward_x(RowRange rows, TensorView<const T, 2> grad_out, TensorView<T, 2> grad_x,
                  const Execution& execution) const;
  // Adds to the gradients of those rows. grad_out: (tokens, rows.count), x: (tokens, d_in).
  void backward_weight(RowRange rows, TensorView<const T, 2> grad_out, TensorView<const T, 2> x,
                       const Execution& execution);
  void zero_grad();

  TensorView<T, 2> weight() { return weight_.view(); }
  TensorView<const T, 2> weight() const { return weight_.view(); }
  // Not given without stored gradients.
  TensorView<T, 2> weight_gradient() { return weight_gradient_.view(); }
  std::span<T> weight_values(RowRange rows);
  // Empty without a bias.
  std::span<T> bias_values(RowRange rows);

  // Appends "<name>.weight" and, where wanted and there is one, "<name>.bias" of those rows.
  void append_parameters(const std::string& name, RowRange rows, bool with_bias, std::vector<Parameter<T>>& out);

 private:
  Tensor<T, 2> weight_, weight_gradient_;
  Tensor<T, 1> bias_, bias_gradient_;
};

extern template class Linear<float>;
extern template class Linear<double>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_LINEAR_H_
