// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/layer_file_binding.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <string>

#include "headwise/checkpoints/load_attention.h"
#include "headwise/tensor/errors.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/python_layer.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {
namespace {

using H = nb::handle;
constexpr std::string_view kWho = "load";

std::string text_argument(std::string_view name, H given) {
  if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
  throw DTypeError(fmt::format("{}: {} must be a str, got {}", kWho, name, type_text(given)));
}

Index count_argument(std::string_view name, H given) {
  return integer_argument({kWho, name}, given, 1, std::numeric_limits<Index>::max());
}

LayerKind kind_argument(H given) {
  const std::string name = text_argument("kind", given);
  try {
    return parse_layer_kind(name);
  } catch (const ArgumentError& error) {
    throw ArgumentError(fmt::format("{}: {}", kWho, error.what()));
  }
}

LayerFacts take_facts(H kind, H num_heads, H causal, H dropout, H context_length, H seed) {
  LayerFacts facts;
  if (!kind.is_none()) facts.kind = kind_argument(kind);
  if (!num_heads.is_none()) facts.num_heads = count_argument("num_heads", num_heads);
  if (!causal.is_none()) facts.causal = flag_argument({kWho, "causal"}, causal);
  if (!dropout.is_none()) facts.dropout = real_argument({kWho, "dropout"}, dropout);
  if (!context_length.is_none()) facts.context_length = count_argument("context_length", context_length);
  if (!seed.is_none()) facts.seed = seed_argument({kWho, "seed"}, seed);
  return facts;
}

// A layer's number, or its name.
AttentionChoice take_choice(H layer, H family, H layout) {
  AttentionChoice choice;
  if (nb::isinstance<nb::str>(layer)) {
    choice.name = nb::cast<std::string>(layer);
  } else if (!layer.is_none()) {
    choice.layer = integer_argument({kWho, "layer"}, layer, 0, std::numeric_limits<Index>::max());
  }
  if (!family.is_none()) choice.family = text_argument("family", family);
  if (!layout.is_none()) choice.layout = text_argument("layout", layout);
  return choice;
}

// The file's own type unless one is asked for.
PythonLayer* load(const nb::bytes& path_given, H kind, H num_heads, H causal, H dropout, H context_length, H seed,
                  H dtype, H layer, H family, H layout) {
  const std::string path(path_given.c_str(), path_given.size());
  const AttentionChoice choice = take_choice(layer, family, layout);
  const LayerFacts facts = take_facts(kind, num_heads, causal, dropout, context_length, seed);
  std::string type;
  if (!dtype.is_none()) type = text_argument("dtype", dtype);
  if (!type.empty() && type != "float32" && type != "float64") {
    throw DTypeError(fmt::format("{}: dtype must be float32 or float64, got {}", kWho, type));
  }
  if (type.empty()) type = dtype_name(attention_dtype(path, choice));
  if (type == "float32") return make_python_layer(load_attention<float>(path, choice, facts));
  return make_python_layer(load_attention<double>(path, choice, facts));
}

// A layer of the bytes that pack gave. Throws FileError when they are no such bytes.
PythonLayer* unpack(const nb::bytes& packed, bool wide) {
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(packed.data()), packed.size());
  constexpr std::string_view kName = "pickled layer";
  if (wide) return make_python_layer(unpack_layer<double>(kName, bytes));
  return make_python_layer(unpack_layer<float>(kName, bytes));
}

}  // namespace

void bind_layer_files(nb::module_& module) {
  const auto none = nb::arg().none();
  module.def("load_layer", load, nb::arg(), none, none, none, none, none, none, none, none, none, none,
             nb::rv_policy::take_ownership);
  module.def("unpack_layer", unpack, nb::rv_policy::take_ownership);
}

}  // namespace headwise::python
