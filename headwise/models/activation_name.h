// SPDX-License-Identifier: Apache-2.0
// The activations of a feed-forward part by their names.
#ifndef HEADWISE_MODELS_ACTIVATION_NAME_H_
#define HEADWISE_MODELS_ACTIVATION_NAME_H_

#include <string_view>

namespace headwise {

// Throws ArgumentError "<who>: activation must be "gelu" or "gelu_tanh", got "relu"".
void check_activation(std::string_view who, std::string_view activation);

}  // namespace headwise

#endif  // HEADWISE_MODELS_ACTIVATION_NAME_H_
