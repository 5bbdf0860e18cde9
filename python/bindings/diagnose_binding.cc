// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/diagnose_binding.h"

#include <nanobind/stl/string.h>

#include <string>

#include "headwise/lens/diagnose.h"
#include "python/bindings/python_layer.h"

namespace headwise::python {
namespace {

nb::tuple diagnose_layer(const PythonLayer& layer, nb::handle x, nb::handle got) {
  const Diagnosis found = layer.diagnosis(x, got);
  nb::list names, mistakes;
  for (const std::string& name : found.names) names.append(name);
  for (const MistakeDistance& one : found.distances) {
    const nb::object distance = one.distance ? nb::object(nb::float_(*one.distance)) : nb::none();
    mistakes.append(nb::make_tuple(one.name, one.what, distance, one.note));
  }
  return nb::make_tuple(std::string(verdict_name(found.verdict)), names, found.right, found.not_finite, mistakes);
}

}  // namespace

void bind_diagnose(nb::module_& module) { module.def("diagnose", diagnose_layer); }

}  // namespace headwise::python
