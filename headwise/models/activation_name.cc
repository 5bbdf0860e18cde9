// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/activation_name.h"

#include <string>

#include "headwise/tensor/errors.h"

namespace headwise {

void check_activation(std::string_view who, std::string_view activation) {
  if (activation == "gelu" || activation == "gelu_tanh") return;
  throw ArgumentError(std::string(who) + ": activation must be \"gelu\" or \"gelu_tanh\", got \"" +
                      std::string(activation) + "\"");
}

}  // namespace headwise
