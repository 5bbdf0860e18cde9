// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_LAYER_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_LAYER_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// The class Layer and one function for each constructor, positional; headwise/_layers.py gives them names and defaults.
void bind_layers(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_LAYER_BINDING_H_
