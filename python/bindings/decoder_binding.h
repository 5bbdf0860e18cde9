// SPDX-License-Identifier: Apache-2.0
// The decoder and its training, for this package's own tests and bench: _headwise.Decoder32, Decoder64, Training.
#ifndef HEADWISE_PYTHON_BINDINGS_DECODER_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_DECODER_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

void bind_decoder(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_DECODER_BINDING_H_
