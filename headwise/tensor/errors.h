// SPDX-License-Identifier: Apache-2.0
// What the library throws when a caller's numbers do not fit together.
#ifndef HEADWISE_TENSOR_ERRORS_H_
#define HEADWISE_TENSOR_ERRORS_H_

#include <stdexcept>

namespace headwise {

// Sizes that do not fit together. ValueError in Python.
struct ShapeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A value outside its range (a probability of 1, a NaN scale). ValueError in Python.
struct ArgumentError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// An element type that the call does not take. TypeError in Python.
struct DTypeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A call that is right in itself but comes at the wrong time. RuntimeError in Python.
struct StateError : std::logic_error {
  using std::logic_error::logic_error;
};

}  // namespace headwise

#endif  // HEADWISE_TENSOR_ERRORS_H_
