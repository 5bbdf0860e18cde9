// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_TENSOR_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_TENSOR_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// tensor_attention and tensor_attention_backward: the calls of headwise.attention on tensors of torch, by their address
// and strides. Every result is a tensor that the caller made. Not part of the package's face: headwise.torch is.
void bind_tensor_attention(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_TENSOR_BINDING_H_
