// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/linear_binding.h"

#include <algorithm>
#include <string>

#include "headwise/kernels/linear.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/interruptible.h"

namespace headwise::python {
namespace {

// An array of float32 or float64.
ArrayArgument real_array(const char* who, const char* name, nb::handle given) {
  if (given.is_none()) throw DTypeError(std::string(who) + ": " + name + " must be a numpy array, got NoneType");
  ArrayArgument array(who, name, given);
  if (array.dtype() != DType::kFloat32 && array.dtype() != DType::kFloat64) array.refuse_dtype("float32 or float64");
  return array;
}

double operations(Index tokens, Index d_in, Index d_out) {
  return static_cast<double>(tokens) * static_cast<double>(d_in) * static_cast<double>(d_out);
}

template <class Body>
void with_type_of(const ArrayArgument& array, Body&& body) {
  if (array.dtype() == DType::kFloat32) {
    body(float{});
  } else {
    body(double{});
  }
}

// x (tokens, d_in), weight (d_out, d_in), bias (d_out,) or None -> (tokens, d_out).
nb::object linear(nb::handle x_given, nb::handle weight_given, nb::handle bias_given) {
  constexpr const char* kWho = "linear";
  const ArrayArgument x = real_array(kWho, "x", x_given), weight = real_array(kWho, "weight", weight_given);
  const ArrayArgument bias(kWho, "bias", bias_given);
  require_same_dtype(weight, x);
  require_same_dtype(bias, x);
  check_shape(kWho, "x", x.shape(), {{"tokens"}, {"d_in"}});
  check_shape(kWho, "weight", weight.shape(), {{"d_out"}, {"d_in", x.shape()[1]}});
  const Shape<2> shape{x.shape()[0], weight.shape()[0]};
  if (bias.given()) check_shape(kWho, "bias", bias.shape(), {{"d_out", shape[1]}});
  MemoryRequest request;
  request.add("out", shape, dtype_bytes(*x.dtype()));
  request.check(kWho);
  const nb::object out = new_array(shape, *x.dtype());
  with_type_of(x, [&](auto zero) {
    using T = decltype(zero);
    const auto target = view_of<T, 2>(out, shape);
    run_interruptible(operations(shape[0], x.shape()[1], shape[1]), [&](const Execution& execution) {
      linear_forward(x.view<const T, 2>(), weight.view<const T, 2>(), bias.view<const T, 1>(), target, execution);
    });
  });
  return out;
}

// grad_out (tokens, d_out), x (tokens, d_in), weight (d_out, d_in) -> gradients of x, weight and bias.
nb::object linear_backward(nb::handle grad_out_given, nb::handle x_given, nb::handle weight_given) {
  constexpr const char* kWho = "linear_backward";
  const ArrayArgument grad_out = real_array(kWho, "grad_out", grad_out_given), x = real_array(kWho, "x", x_given);
  const ArrayArgument weight = real_array(kWho, "weight", weight_given);
  require_same_dtype(x, grad_out);
  require_same_dtype(weight, grad_out);
  check_shape(kWho, "grad_out", grad_out.shape(), {{"tokens"}, {"d_out"}});
  const Index tokens = grad_out.shape()[0], d_out = grad_out.shape()[1];
  check_shape(kWho, "x", x.shape(), {{"tokens", tokens}, {"d_in"}});
  const Index d_in = x.shape()[1];
  check_shape(kWho, "weight", weight.shape(), {{"d_out", d_out}, {"d_in", d_in}});
  const Shape<2> x_shape{tokens, d_in}, weight_shape{d_out, d_in};
  const Shape<1> bias_shape{d_out};
  MemoryRequest request;
  request.add("gradient of x", x_shape, dtype_bytes(*x.dtype()));
  request.add("gradient of weight", weight_shape, dtype_bytes(*x.dtype()));
  request.check(kWho);
  const nb::object grad_x = new_array(x_shape, *x.dtype()), grad_weight = new_array(weight_shape, *x.dtype());
  const nb::object grad_bias = new_array(bias_shape, *x.dtype());
  with_type_of(x, [&](auto zero) {
    using T = decltype(zero);
    const auto to_x = view_of<T, 2>(grad_x, x_shape), to_weight = view_of<T, 2>(grad_weight, weight_shape);
    const auto to_bias = view_of<T, 1>(grad_bias, bias_shape);
    run_interruptible(2 * operations(tokens, d_in, d_out), [&](const Execution& execution) {
      linear_backward_x(grad_out.view<const T, 2>(), weight.view<const T, 2>(), to_x, execution);
      std::fill_n(to_weight.data(), to_weight.elements(), T{});  // these two are added to
      std::fill_n(to_bias.data(), to_bias.elements(), T{});
      linear_backward_weight(grad_out.view<const T, 2>(), x.view<const T, 2>(), to_weight, to_bias, execution);
    });
  });
  return nb::make_tuple(grad_x, grad_weight, grad_bias);
}

}  // namespace

void bind_linear(nb::module_& module) {
  const auto none = nb::arg().none();
  module.def("linear", linear, none, none, none);
  module.def("linear_backward", linear_backward, none, none, none);
}

}  // namespace headwise::python
