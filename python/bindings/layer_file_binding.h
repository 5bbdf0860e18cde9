// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_LAYER_FILE_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_LAYER_FILE_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// load_layer: a saved layer of either type.
void bind_layer_files(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_LAYER_FILE_BINDING_H_
