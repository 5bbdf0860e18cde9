// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_COMMAND_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_COMMAND_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// The command line, and the environment variables it shares with the package.
void bind_command(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_COMMAND_BINDING_H_
