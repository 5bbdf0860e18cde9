// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_LINEAR_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_LINEAR_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// linear and linear_backward: the projection by itself, for measurements. Not part of the package's face.
void bind_linear(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_LINEAR_BINDING_H_
