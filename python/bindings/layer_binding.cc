// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/layer_binding.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "headwise/tensor/errors.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/python_layer.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {
namespace {

using H = nb::handle;

// Reads the arguments of one constructor. Ranges are checked by the layer itself.
struct Reader {
  std::string_view who;

  Index count(std::string_view name, H given) const {
    return integer_argument({who, name}, given, std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max());
  }
  std::optional<Index> optional_count(std::string_view name, H given) const {
    return given.is_none() ? std::nullopt : std::optional(count(name, given));
  }
  double number(std::string_view name, H given) const { return real_argument({who, name}, given); }
  bool flag(std::string_view name, H given) const { return flag_argument({who, name}, given); }
  std::optional<std::uint64_t> seed(H given) const {
    return given.is_none() ? std::nullopt : std::optional(seed_argument({who, "seed"}, given));
  }
  std::string text(std::string_view name, H given) const {
    if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
    throw DTypeError(fmt::format("{}: {} must be a str, got {}", who, name, type_text(given)));
  }
};

// Weights and gradients of the four projections, before they are allocated.
struct WeightSizes {
  Index d_in = 0, query_width = 0, kv_width = 0, d_out = 0;  // d_out is 0 without an output projection
};

// Before they are multiplied.
void check_widths(std::string_view who, Index d_in, Index d_out) {
  check_width(who, "d_in", d_in);
  check_width(who, "d_out", d_out);
}

void check_weights_fit(std::string_view who, const WeightSizes& sizes, std::size_t item_bytes) {
  const Index inputs = (sizes.query_width + 2 * sizes.kv_width) * sizes.d_in;
  const Index with_gradients[] = {2, inputs + sizes.d_out * sizes.query_width};
  MemoryRequest request;
  request.add("the weights and their gradients", with_gradients, item_bytes);
  request.check(who);
}

PythonLayer* multi_head_attention(H d_in_given, H d_out_given, H context_length, H dropout, H num_heads, H qkv_bias,
                                  H causal, H out_proj, H out_bias, H num_kv_heads, H head_dim, H init, H seed,
                                  H dtype) {
  const Reader read{"MultiHeadAttention"};
  const Index d_in = read.count("d_in", d_in_given), d_out = read.count("d_out", d_out_given);
  MultiHeadAttentionOptions options;
  options.context_length = read.optional_count("context_length", context_length);
  options.dropout = read.number("dropout", dropout);
  options.num_heads = read.count("num_heads", num_heads);
  options.qkv_bias = read.flag("qkv_bias", qkv_bias);
  options.causal = read.flag("causal", causal);
  options.out_proj = read.flag("out_proj", out_proj);
  options.out_bias = read.flag("out_bias", out_bias);
  options.num_kv_heads = read.optional_count("num_kv_heads", num_kv_heads);
  options.head_dim = read.optional_count("head_dim", head_dim);
  options.init = read.text("init", init);
  options.seed = read.seed(seed);
  const std::string type = read.text("dtype", dtype);
  if (type != "float32" && type != "float64") {
    throw DTypeError(fmt::format("{}: dtype must be float32 or float64, got {}", read.who, type));
  }
  AttentionConfig config;  // every other check of the sizes comes before that of the memory
  config.who = read.who;
  config.d_in = d_in;
  config.d_out = d_out;
  config.num_heads = options.num_heads;
  config.num_kv_heads = options.num_kv_heads;
  config.head_dim = options.head_dim;
  config.context_length = options.context_length;
  config.dropout = options.dropout;
  config.out_proj = options.out_proj;
  const AttentionSizes sizes = check_config(config);
  const bool narrow = type == "float32";
  check_weights_fit(read.who, {d_in, sizes.query_width(), sizes.kv_width(), options.out_proj ? d_out : 0},
                    narrow ? sizeof(float) : sizeof(double));
  if (narrow) return make_python_layer(AnyLayer<float>(MultiHeadAttention<float>(d_in, d_out, options)));
  return make_python_layer(AnyLayer<double>(MultiHeadAttention<double>(d_in, d_out, options)));
}

PythonLayer* causal_self_attention(H d_in_given, H d_out_given, H context_length, H dropout, H qkv_bias, H seed) {
  const Reader read{"CausalSelfAttention"};
  const Index d_in = read.count("d_in", d_in_given), d_out = read.count("d_out", d_out_given);
  check_widths(read.who, d_in, d_out);
  check_weights_fit(read.who, {d_in, d_out, d_out, 0}, sizeof(float));
  return make_python_layer(AnyLayer<float>(
      CausalSelfAttention<float>(d_in, d_out, read.optional_count("context_length", context_length),
                                 read.number("dropout", dropout), read.flag("qkv_bias", qkv_bias), read.seed(seed))));
}

PythonLayer* multi_head_attention_wrapper(H d_in_given, H d_out_given, H context_length, H dropout, H num_heads_given,
                                          H qkv_bias, H width_given, H out_proj, H seed) {
  const Reader read{"MultiHeadAttentionWrapper"};
  const Index d_in = read.count("d_in", d_in_given), d_out = read.count("d_out", d_out_given);
  const Index num_heads = read.count("num_heads", num_heads_given);
  WrapperOptions options;
  options.context_length = read.optional_count("context_length", context_length);
  options.dropout = read.number("dropout", dropout);
  options.qkv_bias = read.flag("qkv_bias", qkv_bias);
  options.out_proj = read.flag("out_proj", out_proj);
  options.seed = read.seed(seed);
  const std::string width = read.text("width", width_given);
  if (width != "per_head" && width != "total") {
    throw ArgumentError(fmt::format("{}: width must be \"per_head\" or \"total\", got \"{}\"", read.who, width));
  }
  check_widths(read.who, d_in, d_out);
  check_width(read.who, "num_heads", num_heads);
  const Index total = width == "total" ? d_out : num_heads * d_out;
  check_width(read.who, "num_heads * d_out", total);
  check_weights_fit(read.who, {d_in, total, total, options.out_proj ? total : 0}, sizeof(float));
  using Wrapper = MultiHeadAttentionWrapper<float>;
  return make_python_layer(AnyLayer<float>(width == "total"
                                               ? Wrapper::with_total_width(d_in, d_out, num_heads, options)
                                               : Wrapper::with_head_width(d_in, d_out, num_heads, options)));
}

PythonLayer* multi_head_attention_layer(H d_in_given, H d_out_given, H context_length, H dropout, H num_heads,
                                        H use_bias, H causal, H seed) {
  const Reader read{"MultiHeadAttentionLayer"};
  const Index d_in = read.count("d_in", d_in_given), d_out = read.count("d_out", d_out_given);
  check_widths(read.who, d_in, d_out);
  check_weights_fit(read.who, {d_in, d_out, d_out, 0}, sizeof(float));
  return make_python_layer(AnyLayer<float>(
      MultiHeadAttentionLayer<float>(d_in, d_out, read.optional_count("context_length", context_length),
                                     read.number("dropout", dropout), read.count("num_heads", num_heads),
                                     read.flag("use_bias", use_bias), read.flag("causal", causal), read.seed(seed))));
}

template <class Function, std::size_t... At>
void define_maker(nb::module_& module, const char* name, Function function, std::index_sequence<At...>) {
  module.def(name, function, (static_cast<void>(At), nb::arg().none())..., nb::rv_policy::take_ownership);
}

}  // namespace

void bind_layers(nb::module_& module) {
  const auto none = nb::arg().none();
  nb::class_<PythonLayer>(module, "Layer", "An attention layer in C++, behind every layer class of headwise.")
      .def(
          "forward",
          [](PythonLayer& layer, H x, H keys_values, H mask, H bias, H kv_lengths, H query_offset, H return_weights,
             H stats) {
            return layer.forward({x, keys_values, mask, bias, kv_lengths, query_offset, return_weights, stats});
          },
          none, none, none, none, none, none, none, none)
      .def("backward", &PythonLayer::backward, none)
      .def("parameters",
           [](nb::handle_t<PythonLayer> self) { return nb::cast<PythonLayer&>(self).arrays(self, false); })
      .def("gradients", [](nb::handle_t<PythonLayer> self) { return nb::cast<PythonLayer&>(self).arrays(self, true); })
      .def("zero_grad", &PythonLayer::zero_grad)
      .def("load_state_dict", &PythonLayer::load)
      .def("save",
           [](PythonLayer& layer, const nb::bytes& path) {
             layer.save({path.c_str(), path.size()});
           })
      .def("pack", &PythonLayer::pack)
      .def("fuse", &PythonLayer::fuse, nb::rv_policy::take_ownership)
      .def("split", &PythonLayer::split, nb::rv_policy::take_ownership)
      .def(
          "head",
          [](const PythonLayer& layer, H index) {
            const std::string who = layer.config().who + ".head";
            return layer.head(Reader{who}.count("index", index));
          },
          nb::rv_policy::take_ownership)
      .def_rw("training", &PythonLayer::training)
      .def_rw("frozen", &PythonLayer::frozen)
      .def_rw("training_forwards", &PythonLayer::training_forwards)
      .def_prop_ro("kind", [](const PythonLayer& layer) { return layer.config().who; })
      .def_prop_ro("dtype", [](const PythonLayer& layer) { return std::string(dtype_name(layer.dtype())); })
      .def_prop_ro("seed", &PythonLayer::seed)
      .def_prop_ro("parameter_count", &PythonLayer::parameter_count)
      .def_prop_ro("d_in", [](const PythonLayer& layer) { return layer.config().d_in; })
      .def_prop_ro("d_out", [](const PythonLayer& layer) { return layer.config().d_out; })
      .def_prop_ro("num_heads", [](const PythonLayer& layer) { return layer.sizes().heads; })
      .def_prop_ro("num_kv_heads", [](const PythonLayer& layer) { return layer.sizes().kv_heads; })
      .def_prop_ro("head_dim", [](const PythonLayer& layer) { return layer.sizes().head_dim; })
      .def_prop_ro("context_length", [](const PythonLayer& layer) { return layer.config().context_length; })
      .def_prop_ro("dropout", [](const PythonLayer& layer) { return layer.config().dropout; })
      .def_prop_ro("causal", [](const PythonLayer& layer) { return layer.config().causal; })
      .def_prop_ro("rotary",
                   [](const PythonLayer& layer) {
                     const auto& rule = layer.config().rotary;
                     return rule ? std::optional(rotary_text(*rule)) : std::nullopt;
                   })
      .def_prop_ro("window_left", [](const PythonLayer& layer) { return layer.config().window_left; });
  define_maker(module, "multi_head_attention", multi_head_attention, std::make_index_sequence<14>{});
  define_maker(module, "causal_self_attention", causal_self_attention, std::make_index_sequence<6>{});
  define_maker(module, "multi_head_attention_wrapper", multi_head_attention_wrapper, std::make_index_sequence<9>{});
  define_maker(module, "multi_head_attention_layer", multi_head_attention_layer, std::make_index_sequence<8>{});
}

}  // namespace headwise::python
