// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/runtime_binding.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>
#include <vector>

#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/errors.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {
namespace {

constexpr Index kMostThreads = 4096;

std::string build_text() {
#ifdef NDEBUG
  constexpr const char* kMode = "release";
#else
  constexpr const char* kMode = "debug";
#endif
  return fmt::format("{}, g++ {}, nanobind {}.{}.{}", kMode, __VERSION__, NB_VERSION_MAJOR, NB_VERSION_MINOR,
                     NB_VERSION_PATCH);
}

std::vector<std::string> available_isa_names() {
  std::vector<std::string> names;
  for (Isa isa : available_isas()) names.emplace_back(isa_name(isa));
  return names;
}

}  // namespace

void bind_runtime(nb::module_& module) {
  module.def(
      "set_num_threads",
      [](nb::handle count) {
        set_num_threads(static_cast<int>(integer_argument({"set_num_threads", "n"}, count, 1, kMostThreads)));
      },
      nb::arg().none());
  module.def("get_num_threads", [] { return num_threads(); });
  module.def("chosen_isa", [] { return std::string(isa_name(chosen_isa())); });
  module.def("available_isas", available_isa_names);
  module.def("build", build_text);
}

}  // namespace headwise::python
