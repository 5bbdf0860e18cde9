// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/tensor_binding.h"

#include <array>
#include <utility>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/attention_call.h"
#include "python/bindings/forward_results.h"
#include "python/bindings/interruptible.h"

namespace headwise::python {
namespace {

using H = nb::handle;

ArrayArgument tensor(const char* who, const char* name, H given) {
  return ArrayArgument(who, name, given, ArrayLibrary::kTorch);
}

// A tensor that the caller made, with the type and the axes that the call has for it; an empty view where it is None.
template <class T, int Rank>
TensorView<T, Rank> made_view(const ArrayArgument& array, const AttentionCall& call, DType dtype,
                              const Shape<Rank>& shape) {
  if (!array.given()) return {};
  const bool fits =
      array.dtype() == dtype && std::equal(shape.begin(), shape.end(), array.shape().begin(), array.shape().end());
  if (!fits) throw ArgumentError(std::string(call.who()) + ": " + array.name() + " was made for another call");
  return array.view<T, Rank>();
}

// The tensors a forward writes; None where not wanted. unrounded is the context of 16-bit types in float32.
struct ForwardTensors {
  template <class T>
  AttentionOutputs<T> outputs(const AttentionCall& call, bool after_dropout) const {
    using A = Accumulated<T>;
    const AttentionShape& s = call.shape();
    const DType dtype = call.dtype(), sums = accumulated_dtype(dtype);
    AttentionOutputs<T> outputs;
    outputs.context = made_view<T, 4>(context, call, dtype, context_shape(s));
    outputs.unrounded_context = made_view<A, 4>(unrounded, call, sums, context_shape(s));
    outputs.row_max = made_view<A, 3>(row_max, call, sums, row_shape(s));
    outputs.row_sum = made_view<A, 3>(row_sum, call, sums, row_shape(s));
    outputs.logsumexp = made_view<A, 3>(lse, call, sums, row_shape(s));
    outputs.weights = made_view<T, 4>(weights, call, dtype, Shape<4>{s.batch, s.heads, s.seq_q, s.seq_kv});
    outputs.weights_after_dropout = after_dropout;
    return outputs;
  }

  ArrayArgument context, unrounded, row_max, row_sum, lse, weights;  // as the caller made them
};

// Gives the statistics that were asked for: a dict of numpy arrays, or None.
nb::object forward(const AttentionCall& call, const ForwardTensors& tensors, H weights_after_dropout, H stats) {
  RequestedOutputs requested(call.who(), nb::bool_(false), stats);
  requested.check_positions(call.visibility(), call.shape());
  if (requested.stats()) requested.allocate(call.shape(), call.q);
  const bool after_dropout = nb::cast<bool>(weights_after_dropout);
  with_float_type(call.dtype(), [&](auto zero) {
    using T = decltype(zero);
    AttentionOutputs<T> outputs = tensors.outputs<T>(call, after_dropout);
    if (requested.stats()) {
      TensorView<T, 4> no_weights;
      bool unused = false;
      requested.fill_views(call.shape(), no_weights, unused, outputs.statistics);
    }
    const AttentionProblem<T> problem = call.problem<T>();
    run_interruptible(call.operations(),
                      [&](const Execution& execution) { attention_forward(problem, outputs, execution); });
  });
  return requested.stats_result();
}

// A gradient has its argument's shape; None is one that nobody needs.
template <class T, int Rank>
TensorView<T, Rank> gradient_view(const AttentionCall& call, H given, const ArrayArgument& of) {
  const ArrayArgument array(call.who(), "gradient of " + of.name(), given, ArrayLibrary::kTorch);
  if (!array.given()) return {};
  const bool fits = array.dtype() == of.dtype() &&
                    std::equal(of.shape().begin(), of.shape().end(), array.shape().begin(), array.shape().end());
  if (!fits) throw ArgumentError(std::string(call.who()) + ": " + array.name() + " was made for another call");
  return array.view<T, Rank>();
}

struct SavedTensors {
  ArrayArgument grad_context, context, row_max, row_sum;
};

// gradients: of q, k, v, bias, alibi_slopes, sinks.
void backward(const AttentionCall& call, const SavedTensors& saved, const std::array<H, 6>& given) {
  with_float_type(call.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulated<T>;
    const AttentionShape& s = call.shape();
    const DType sums = accumulated_dtype(call.dtype());
    const TensorView<const T, 4> grad = made_view<const T, 4>(saved.grad_context, call, call.dtype(), context_shape(s));
    const AttentionSaved<T> kept{made_view<const A, 4>(saved.context, call, sums, context_shape(s)),
                                 made_view<const A, 3>(saved.row_max, call, sums, row_shape(s)),
                                 made_view<const A, 3>(saved.row_sum, call, sums, row_shape(s))};
    const AttentionGradients<T> gradients{gradient_view<T, 4>(call, given[0], call.q),
                                          gradient_view<T, 4>(call, given[1], call.k),
                                          gradient_view<T, 4>(call, given[2], call.v),
                                          gradient_view<T, 4>(call, given[3], call.bias),
                                          gradient_view<A, 1>(call, given[4], call.alibi_slopes),
                                          gradient_view<A, 1>(call, given[5], call.sinks)};
    const AttentionProblem<T> problem = call.problem<T>();
    run_interruptible(2.5 * call.operations(), [&](const Execution& execution) {
      attention_backward(problem, grad, kept, gradients, execution);
    });
  });
}

// Defines a function all of whose arguments may be None.
template <class Function, std::size_t... At>
void define(nb::module_& module, const char* name, Function function, std::index_sequence<At...>) {
  module.def(name, function, (static_cast<void>(At), nb::arg().none())...);
}

}  // namespace

void bind_tensor_attention(nb::module_& module) {
  const auto forward_call = [](const char* who, H q, H k, H v, H mask, H bias, H causal, H query_offset, H window,
                               H kv_lengths, H scale, H softcap, H alibi_slopes, H sinks, H dropout, H seed,
                               H batch_offset, H head_offset, H context, H unrounded, H row_max, H row_sum, H lse,
                               H weights, H weights_after_dropout, H stats) {
    const AttentionCall call(
        who, {q, k, v, mask, bias, causal, query_offset, window, kv_lengths, scale, softcap, alibi_slopes, sinks,
              dropout, seed, batch_offset, head_offset, ArrayLibrary::kTorch});
    return forward(
        call,
        {tensor(who, "context", context), tensor(who, "unrounded", unrounded), tensor(who, "row_max", row_max),
         tensor(who, "row_sum", row_sum), tensor(who, "lse", lse), tensor(who, "weights", weights)},
        weights_after_dropout, stats);
  };
  const auto backward_call = [](const char* who, H q, H k, H v, H mask, H bias, H causal, H query_offset, H window,
                                H kv_lengths, H scale, H softcap, H alibi_slopes, H sinks, H dropout, H seed,
                                H batch_offset, H head_offset, H grad_context, H context, H row_max, H row_sum,
                                H grad_q, H grad_k, H grad_v, H grad_bias, H grad_alibi_slopes, H grad_sinks) {
    const AttentionCall call(
        who, {q, k, v, mask, bias, causal, query_offset, window, kv_lengths, scale, softcap, alibi_slopes, sinks,
              dropout, seed, batch_offset, head_offset, ArrayLibrary::kTorch});
    backward(call,
             {tensor(who, "grad_context", grad_context), tensor(who, "saved context", context),
              tensor(who, "row_max", row_max), tensor(who, "row_sum", row_sum)},
             {grad_q, grad_k, grad_v, grad_bias, grad_alibi_slopes, grad_sinks});
  };
  define(module, "tensor_attention", forward_call, std::make_index_sequence<26>{});
  define(module, "tensor_attention_backward", backward_call, std::make_index_sequence<28>{});
}

}  // namespace headwise::python
