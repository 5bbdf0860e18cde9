// SPDX-License-Identifier: Apache-2.0
// (batch, seq, width) seen as (batch * seq, width), which is how a projection takes it: in place where the strides
// allow it, else through a dense copy.
#ifndef HEADWISE_LAYERS_TOKEN_ROWS_H_
#define HEADWISE_LAYERS_TOKEN_ROWS_H_

#include <optional>
#include <utility>

#include "headwise/tensor/tensor.h"

namespace headwise {

// Nothing when batch and seq cannot be walked with one stride.
template <class T>
std::optional<TensorView<T, 2>> token_rows(TensorView<T, 3> x) {
  const Index tokens = x.size(0) * x.size(1);
  Index step = x.stride(1);
  if (x.size(1) == 1) {
    step = x.stride(0);
  } else if (x.size(0) > 1 && x.stride(0) != x.stride(1) * x.size(1)) {
    return std::nullopt;
  }
  return TensorView<T, 2>(x.data(), {tokens, x.size(2)}, {step, x.stride(2)});
}

// A dense tensor's rows.
template <class T>
TensorView<T, 2> token_rows(Tensor<T, 3>& x) {
  return {x.data(), {x.size(0) * x.size(1), x.size(2)}};
}
template <class T>
TensorView<const T, 2> token_rows(const Tensor<T, 3>& x) {
  return {x.data(), {x.size(0) * x.size(1), x.size(2)}};
}

// An input by rows.
template <class T>
class InputRows {
 public:
  explicit InputRows(TensorView<const T, 3> x) {
    if (const auto direct = token_rows(x)) {
      rows_ = *direct;
    } else {
      copy_ = Tensor<T, 3>(x);
      rows_ = token_rows(std::as_const(copy_));
    }
  }
  TensorView<const T, 2> view() const { return rows_; }

 private:
  Tensor<T, 3> copy_;
  TensorView<const T, 2> rows_;
};

// An output by rows; store() brings a copy, where one was needed, to its place.
template <class T>
class OutputRows {
 public:
  explicit OutputRows(TensorView<T, 3> target) : target_(target) {
    if (const auto direct = token_rows(target)) {
      rows_ = *direct;
    } else {
      copy_ = Tensor<T, 3>(target.shape());
      rows_ = token_rows(copy_);
    }
  }
  TensorView<T, 2> view() { return rows_; }
  void store() {
    if (copy_) copy_elements(copy_.view(), target_);
  }

 private:
  TensorView<T, 3> target_;
  Tensor<T, 3> copy_;
  TensorView<T, 2> rows_;
};

}  // namespace headwise

#endif  // HEADWISE_LAYERS_TOKEN_ROWS_H_
