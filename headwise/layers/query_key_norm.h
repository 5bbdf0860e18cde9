// SPDX-License-Identifier: Apache-2.0
// RMS norm of projected queries or keys, before their positions are turned in. Source: Qwen3 and Gemma 3 (per head),
// OLMo 2 (over the whole projection).
#ifndef HEADWISE_LAYERS_QUERY_KEY_NORM_H_
#define HEADWISE_LAYERS_QUERY_KEY_NORM_H_

#include <string>
#include <string_view>
#include <vector>

#include "headwise/layers/linear.h"
#include "headwise/layers/parameter.h"
#include "headwise/runtime/execution.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

struct QueryKeyNorm {
  bool whole = false;  // over all heads of a token together; else each head by itself, all with one weight
  double eps = 1e-6;

  bool operator==(const QueryKeyNorm&) const = default;
};

// "per_head" or "whole": how files and reports name it.
std::string_view query_key_norm_name(const QueryKeyNorm& norm);
// "per_head, eps=1e-06".
std::string query_key_norm_text(const QueryKeyNorm& norm);

// Throws ArgumentError "<who>: query_key_norm eps ..." unless 0 <= eps is finite.
void check_query_key_norm(std::string_view who, const QueryKeyNorm& norm);

// The weight of one of the two, and its gradient.
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

#endif  // HEADWISE_LAYERS_QUERY_KEY_NORM_H_
