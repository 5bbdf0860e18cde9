// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_PLAIN_ATTENTION_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_PLAIN_ATTENTION_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// Attention on tensors with nothing but is_causal and scale: the least that a call can cost. Both functions give False,
// and have written nothing, for whatever is not plain: the general call looks at it then.
void bind_plain_attention(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_PLAIN_ATTENTION_BINDING_H_
