// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_DIAGNOSE_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_DIAGNOSE_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// The function diagnose(layer, x, got), whose plain tuple headwise/_diagnose.py gives names.
void bind_diagnose(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_DIAGNOSE_BINDING_H_
