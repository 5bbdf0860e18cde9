// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_RUNTIME_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_RUNTIME_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// Threads, instruction sets and facts about the build.
void bind_runtime(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_RUNTIME_BINDING_H_
