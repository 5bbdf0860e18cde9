// SPDX-License-Identifier: Apache-2.0
// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter), in torch's order of operations. The same bits on
// every machine and any number of threads.
#ifndef HEADWISE_MODELS_ADAMW_H_
#define HEADWISE_MODELS_ADAMW_H_

#include <span>
#include <string>
#include <vector>

#include "headwise/layers/parameter.h"
#include "headwise/runtime/execution.h"

namespace headwise {

struct AdamwConfig {
  double beta1 = 0.9, beta2 = 0.999;  // in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.1;  // of matrices and embeddings; vectors (norms, biases) do not decay

  bool operator==(const AdamwConfig&) const = default;
};

template <class T>
class Adamw {
 public:
  // Borrows the parameters' values and gradients: they must outlive it, unmoved. Moments start at 0. Throws
  // ArgumentError "Adamw: ..." for a rate out of range or a parameter without gradient.
  Adamw(std::vector<Parameter<T>> parameters, const AdamwConfig& config);

  // Step number `step`, counted from 1, with the gradients times gradient_scale.
  void step(Index step, double learning_rate, double gradient_scale, const Execution& execution = {});

  // The moments as parameters of the same shapes, "<prefix><name>": for saving and loading.
  std::vector<Parameter<T>> first_moments(const std::string& prefix);
  std::vector<Parameter<T>> second_moments(const std::string& prefix);

 private:
  std::vector<Parameter<T>> with_values(const std::string& prefix, std::vector<std::vector<T>>& values);

  std::vector<Parameter<T>> parameters_;
  AdamwConfig config_;
  std::vector<std::vector<T>> first_, second_;  // one a parameter
};

// The Euclidean norm over all gradients: squares in double, tile after tile in a fixed order.
template <class T>
double gradient_norm(std::span<const Parameter<T>> parameters, const Execution& execution = {});

// What gradients of that norm are multiplied by so that it does not pass `limit`: limit / (norm + 1e-6) and at most 1.
// A limit of 0 means none.
double clip_scale(double norm, double limit);

extern template class Adamw<float>;
extern template class Adamw<double>;
extern template double gradient_norm(std::span<const Parameter<float>>, const Execution&);
extern template double gradient_norm(std::span<const Parameter<double>>, const Execution&);

}  // namespace headwise

#endif  // HEADWISE_MODELS_ADAMW_H_
