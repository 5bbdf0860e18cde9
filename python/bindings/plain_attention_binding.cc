// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/plain_attention_binding.h"

#include <cmath>
#include <optional>

#include "headwise/kernels/attention.h"
#include "python/bindings/attention_call.h"
#include "python/bindings/exchanged_tensor.h"
#include "python/bindings/interruptible.h"

namespace headwise::python {
namespace {

using H = nb::handle;

constexpr Index kFirstPosition[1] = {0};

// The three tensors and the two options of a plain call.
struct PlainCall {
  ExchangedTensor q, k, v;
  bool causal = false;
  std::optional<double> scale;

  // False: not plain.
  bool read(H given_q, H given_k, H given_v, H is_causal, H given_scale, H enable_gqa) {
    if (!q.read(given_q) || !k.read(given_k) || !v.read(given_v)) return false;
    if (q.shape().size() != 4 || k.shape().size() != 4 || v.shape().size() != 4) return false;
    if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) return false;
    const Index heads = q.shape()[1], kv_heads = k.shape()[1];
    if (!k.has_shape({q.shape()[0], kv_heads, k.shape()[2], q.shape()[3]})) return false;
    if (!v.has_shape({q.shape()[0], kv_heads, k.shape()[2], q.shape()[3]})) return false;
    const bool grouped = enable_gqa.ptr() == Py_True && heads % kv_heads == 0;
    if (heads != kv_heads && kv_heads != 1 && !grouped) return false;
    if (is_causal.ptr() != Py_True && is_causal.ptr() != Py_False) return false;
    causal = is_causal.ptr() == Py_True;
    return read_scale(given_scale);
  }

  bool read_scale(H given) {
    if (given.is_none()) return true;
    if (PyFloat_CheckExact(given.ptr()) == 0) return false;
    scale = PyFloat_AS_DOUBLE(given.ptr());
    return std::isfinite(*scale);
  }

  bool is_context(const ExchangedTensor& tensor) const {
    return tensor.dtype() == q.dtype() && tensor.has_shape({q.shape()[0], q.shape()[1], q.shape()[2], q.shape()[3]});
  }
  // (2, batch, heads, seq_q): maxima, then sums. 16-bit types keep an unrounded context beside: not plain.
  bool are_rows(const ExchangedTensor& tensor) const {
    const bool wide = q.dtype() == DType::kFloat32 || q.dtype() == DType::kFloat64;
    return wide && tensor.dtype() == q.dtype() && tensor.contiguous() &&
           tensor.has_shape({2, q.shape()[0], q.shape()[1], q.shape()[2]});
  }

  double operations() const {
    return 2.0 * static_cast<double>(q.shape()[0] * q.shape()[1] * q.shape()[2]) *
           static_cast<double>(k.shape()[2] * q.shape()[3]);
  }

  template <class T>
  AttentionProblem<T> problem() const {
    AttentionProblem<T> problem;
    problem.inputs = {q.view<const T, 4>(), k.view<const T, 4>(), v.view<const T, 4>()};
    problem.rule.scale = scale;
    problem.visibility.causal = causal;
    problem.visibility.alignment = Alignment::kOffset;
    problem.visibility.query_offset = kFirstPosition;
    return problem;
  }

  // The row maxima (0) or sums (1).
  template <class A>
  TensorView<A, 3> rows(const ExchangedTensor& tensor, Index which) const {
    const Shape<3> shape{q.shape()[0], q.shape()[1], q.shape()[2]};
    return {tensor.data<A>() + which * shape[0] * shape[1] * shape[2], shape};
  }
};

// rows: None when no backward will come.
bool forward(H q, H k, H v, H is_causal, H scale, H enable_gqa, H given_context, H given_rows) {
  PlainCall call;
  ExchangedTensor context, rows;
  if (!call.read(q, k, v, is_causal, scale, enable_gqa)) return false;
  if (!context.read_new(given_context) || !call.is_context(context)) return false;
  const bool save = !given_rows.is_none();
  if (save && (!rows.read_new(given_rows) || !call.are_rows(rows))) return false;
  with_float_type(call.q.dtype(), [&](auto zero) {
    using T = decltype(zero);
    AttentionOutputs<T> outputs;
    outputs.context = context.view<T, 4>();
    if (save) {
      outputs.row_max = call.rows<Accumulated<T>>(rows, 0);
      outputs.row_sum = call.rows<Accumulated<T>>(rows, 1);
    }
    const AttentionProblem<T> problem = call.problem<T>();
    run_interruptible(call.operations(),
                      [&](const Execution& execution) { attention_forward(problem, outputs, execution); });
  });
  return true;
}

struct PlainGradients {
  H q, k, v;  // None: not needed
};

template <class T>
bool backward_of_type(const PlainCall& call, const ExchangedTensor& grad, const ExchangedTensor& context,
                      const ExchangedTensor& rows, const PlainGradients& given) {
  AttentionGradients<T> gradients;
  ExchangedTensor grad_q, grad_k, grad_v;
  if (!given.q.is_none()) {
    if (!grad_q.read_new(given.q)) return false;
    gradients.queries = grad_q.view<T, 4>();
  }
  if (!given.k.is_none()) {
    if (!grad_k.read_new(given.k)) return false;
    gradients.keys = grad_k.view<T, 4>();
  }
  if (!given.v.is_none()) {
    if (!grad_v.read_new(given.v)) return false;
    gradients.values = grad_v.view<T, 4>();
  }
  const AttentionSaved<T> saved{context.view<const T, 4>(), call.rows<const T>(rows, 0), call.rows<const T>(rows, 1)};
  const AttentionProblem<T> problem = call.problem<T>();
  const TensorView<const T, 4> grad_context = grad.view<const T, 4>();
  run_interruptible(2.5 * call.operations(), [&](const Execution& execution) {
    attention_backward(problem, grad_context, saved, gradients, execution);
  });
  return true;
}

bool backward(H q, H k, H v, H is_causal, H scale, H enable_gqa, H given_context, H given_rows, H given_grad, H grad_q,
              H grad_k, H grad_v) {
  PlainCall call;
  ExchangedTensor context, rows, grad;
  if (!call.read(q, k, v, is_causal, scale, enable_gqa)) return false;
  if (!context.read_new(given_context) || !call.is_context(context)) return false;
  if (!rows.read_new(given_rows) || !call.are_rows(rows)) return false;
  if (!grad.read(given_grad) || !call.is_context(grad)) return false;
  const PlainGradients gradients{grad_q, grad_k, grad_v};
  if (call.q.dtype() == DType::kFloat64) return backward_of_type<double>(call, grad, context, rows, gradients);
  return backward_of_type<float>(call, grad, context, rows, gradients);
}

}  // namespace

void bind_plain_attention(nb::module_& module) {
  module.def("tensor_attention_plain", &forward, nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
             nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none());
  module.def("tensor_attention_plain_backward", &backward, nb::arg().none(), nb::arg().none(), nb::arg().none(),
             nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
             nb::arg().none(), nb::arg().none(), nb::arg().none());
}

}  // namespace headwise::python
