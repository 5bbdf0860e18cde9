// SPDX-License-Identifier: Apache-2.0
// The extension headwise._headwise: one binding file for each part of the library.
#include <nanobind/nanobind.h>

#include "python/bindings/attention_binding.h"
#include "python/bindings/command_binding.h"
#include "python/bindings/decoder_binding.h"
#include "python/bindings/diagnose_binding.h"
#include "python/bindings/encoder_binding.h"
#include "python/bindings/errors.h"
#include "python/bindings/kv_cache_binding.h"
#include "python/bindings/layer_binding.h"
#include "python/bindings/layer_file_binding.h"
#include "python/bindings/linear_binding.h"
#include "python/bindings/plain_attention_binding.h"
#include "python/bindings/runtime_binding.h"
#include "python/bindings/saved_attention.h"
#include "python/bindings/tensor_binding.h"

NB_MODULE(_headwise, module) {
  headwise::python::register_errors();
  headwise::python::bind_saved_attention(module);
  headwise::python::bind_attention(module);
  headwise::python::bind_tensor_attention(module);
  headwise::python::bind_plain_attention(module);
  headwise::python::bind_kv_cache(module);
  headwise::python::bind_linear(module);
  headwise::python::bind_layers(module);
  headwise::python::bind_layer_files(module);
  headwise::python::bind_diagnose(module);
  headwise::python::bind_decoder(module);
  headwise::python::bind_encoder(module);
  headwise::python::bind_runtime(module);
  headwise::python::bind_command(module);
  module.attr("__version__") = HEADWISE_VERSION;
}
