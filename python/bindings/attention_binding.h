// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_ATTENTION_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_ATTENTION_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// attention and attention_backward, positional; headwise/_attention.py gives them names and defaults.
void bind_attention(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_ATTENTION_BINDING_H_
