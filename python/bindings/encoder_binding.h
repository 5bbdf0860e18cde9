// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_ENCODER_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_ENCODER_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// Encoder(directory).run(ids, lengths): what every layer of a trained encoder gives.
void bind_encoder(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_ENCODER_BINDING_H_
