// SPDX-License-Identifier: Apache-2.0
// Parameters to and from named tensors: everything is checked before anything is written.
#ifndef HEADWISE_LAYERS_STATE_H_
#define HEADWISE_LAYERS_STATE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/layers/parameter.h"
#include "headwise/tensor/named_tensor.h"

namespace headwise {

struct LoadRules {
  std::string optional_prefix;  // taken off every name that starts with it: "bert."
  // Names that are passed over when no parameter is called so. One '*' at the front or at the end stands for any text.
  std::vector<std::string> ignored;
};

// Buffers that older checkpoints carry beside the parameters: mask, *.mask, *attn.bias, *masked_bias.
const std::vector<std::string>& stored_mask_names();

// Copies tensors into the parameters of the same name. float32 is widened into a float64 parameter; every other mixture
// of types is refused. Throws, with nothing written: ArgumentError naming every missing, unexpected or repeated name,
// ShapeError or DTypeError for the first tensor that does not fit.
template <class T>
void load_parameters(std::string_view who, std::span<const Parameter<T>> parameters,
                     std::span<const NamedTensor> tensors, const LoadRules& rules);

// The parameters' values as named tensors that borrow the layer's storage.
template <class T>
std::vector<NamedTensor> named_tensors(std::span<const Parameter<T>> parameters);

extern template void load_parameters(std::string_view, std::span<const Parameter<float>>, std::span<const NamedTensor>,
                                     const LoadRules&);
extern template void load_parameters(std::string_view, std::span<const Parameter<double>>, std::span<const NamedTensor>,
                                     const LoadRules&);
extern template std::vector<NamedTensor> named_tensors(std::span<const Parameter<float>>);
extern template std::vector<NamedTensor> named_tensors(std::span<const Parameter<double>>);

}  // namespace headwise

#endif  // HEADWISE_LAYERS_STATE_H_
