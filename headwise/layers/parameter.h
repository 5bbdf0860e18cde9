// SPDX-License-Identifier: Apache-2.0
// A trained number block and its gradient, by state_dict name.
#ifndef HEADWISE_LAYERS_PARAMETER_H_
#define HEADWISE_LAYERS_PARAMETER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// A borrowed view of a layer's storage, dense in C order. The per-head names of a wrapper are rows of one stacked
// block. It stays valid as long as the layer is neither moved nor destroyed.
template <class T>
struct Parameter {
  std::string name;
  std::vector<Index> shape;
  T* value = nullptr;
  T* gradient = nullptr;               // null in a layer built without gradients
  std::vector<std::string_view> axes;  // the axes' names, for error texts: {"d_out", "d_in"}

  Index elements() const {
    Index count = 1;
    for (Index extent : shape) count *= extent;
    return count;
  }
  std::span<T> values() const { return {value, static_cast<std::size_t>(elements())}; }
  std::span<T> gradients() const { return {gradient, gradient == nullptr ? 0 : static_cast<std::size_t>(elements())}; }
};

}  // namespace headwise

#endif  // HEADWISE_LAYERS_PARAMETER_H_
