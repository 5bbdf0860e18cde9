// SPDX-License-Identifier: Apache-2.0
#ifndef HEADWISE_PYTHON_BINDINGS_KV_CACHE_BINDING_H_
#define HEADWISE_PYTHON_BINDINGS_KV_CACHE_BINDING_H_

#include <nanobind/nanobind.h>

namespace headwise::python {

// The class behind headwise.KvCache, positional; headwise/_kv_cache.py gives its arguments names and defaults.
void bind_kv_cache(nanobind::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_KV_CACHE_BINDING_H_
