// SPDX-License-Identifier: Apache-2.0
// Numbers, flags and lists of integers as a caller gave them. Each throws DTypeError for a wrong type and ArgumentError
// for a value out of range, naming the call and the argument.
#ifndef HEADWISE_PYTHON_BINDINGS_SCALAR_ARGUMENT_H_
#define HEADWISE_PYTHON_BINDINGS_SCALAR_ARGUMENT_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise::python {

namespace nb = nanobind;

// The call and the argument that a message names.
struct ArgumentName {
  std::string_view who, name;
};

bool is_true_or_false(nb::handle object);

bool flag_argument(ArgumentName argument, nb::handle object);

// Python and numpy real numbers; no bool, no array, no text.
double real_argument(ArgumentName argument, nb::handle object);

// Python and numpy integers; no bool, no float.
Index integer_argument(ArgumentName argument, nb::handle object, Index low, Index high);

std::uint64_t seed_argument(ArgumentName argument, nb::handle object);

// A one-dimensional numpy array of integers, or a list or tuple of them.
std::vector<Index> integers_argument(ArgumentName argument, nb::handle object);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_SCALAR_ARGUMENT_H_
