// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/attention_binding.h"

#include <array>
#include <utility>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/attention_call.h"
#include "python/bindings/forward_results.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/interruptible.h"
#include "python/bindings/saved_attention.h"

namespace headwise::python {
namespace {

void run_forward(const AttentionCall& call, const ForwardResults& results) {
  with_float_type(call.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const AttentionOutputs<T> outputs = results.outputs<T>();
    const AttentionProblem<T> problem = call.problem<T>();
    run_interruptible(call.operations(),
                      [&](const Execution& execution) { attention_forward(problem, outputs, execution); });
  });
}

// The caller's `out` may be filled again before backward: where that is what is saved, it must be a copy.
nb::object make_saved(const AttentionCall& call, const ForwardResults& results) {
  SavedAttention saved;
  saved.context = results.saved_context();
  if (results.out_is_callers() && saved.context.is(results.context())) saved.context = saved.context.attr("copy")("C");
  saved.row_max = results.row_max();
  saved.row_sum = results.row_sum();
  saved.context_fact = fact_of(ArrayArgument(call.who(), "context", saved.context));
  saved.facts = facts_of(call);
  saved.shape = call.shape();
  saved.dtype = call.dtype();
  return nb::cast(std::move(saved));
}

// The context alone, or the five fields of AttentionResult.
nb::object attention(const AttentionHandles& given, const ResultHandles& wanted) {
  const AttentionCall call("attention", given);
  const ForwardResults results(call, wanted);
  run_forward(call, results);
  if (results.only_context()) return results.context();
  return nb::make_tuple(results.context(), results.lse(), results.weights(), results.stats(),
                        results.saves() ? make_saved(call, results) : nb::none());
}

// Row maxima and sums again, for a caller who saved nothing.
SavedAttention recompute(const AttentionCall& call) {
  ResultHandles wanted;
  wanted.save = nb::bool_(true);
  const ForwardResults results(call, wanted);
  run_forward(call, results);
  SavedAttention saved;
  saved.context = results.saved_context();
  saved.row_max = results.row_max();
  saved.row_sum = results.row_sum();
  return saved;
}

// q, k, v, bias, alibi_slopes, sinks: arrays like the arguments, None where one was not given.
using GradientArrays = std::array<nb::object, 6>;

GradientArrays allocate_gradients(const AttentionCall& call) {
  const ArrayArgument* const arguments[] = {&call.q, &call.k, &call.v, &call.bias, &call.alibi_slopes, &call.sinks};
  MemoryRequest request;
  for (const ArrayArgument* argument : arguments) {
    if (!argument->given()) continue;
    request.add("gradient of " + argument->name(), argument->shape(), dtype_bytes(*argument->dtype()));
  }
  request.check(call.who());
  GradientArrays arrays;
  for (std::size_t at = 0; at < arrays.size(); ++at) {
    arrays[at] = arguments[at]->given() ? new_array(arguments[at]->shape(), *arguments[at]) : nb::none();
  }
  return arrays;
}

template <class T>
void run_backward(const AttentionCall& call, const ArrayArgument& grad_context, const SavedAttention& saved,
                  const GradientArrays& arrays) {
  using A = Accumulated<T>;
  std::array<ArrayArgument, 6> targets;
  for (std::size_t at = 0; at < targets.size(); ++at) targets[at] = ArrayArgument(call.who(), "gradient", arrays[at]);
  const AttentionGradients<T> gradients{targets[0].view<T, 4>(), targets[1].view<T, 4>(), targets[2].view<T, 4>(),
                                        targets[3].view<T, 4>(), targets[4].view<A, 1>(), targets[5].view<A, 1>()};
  const AttentionSaved<T> kept{view_of<A, 4>(saved.context, context_shape(call.shape())),
                               view_of<A, 3>(saved.row_max, row_shape(call.shape())),
                               view_of<A, 3>(saved.row_sum, row_shape(call.shape()))};
  const AttentionProblem<T> problem = call.problem<T>();
  const TensorView<const T, 4> grad = grad_context.view<const T, 4>();
  run_interruptible(2.5 * call.operations(),
                    [&](const Execution& execution) { attention_backward(problem, grad, kept, gradients, execution); });
}

nb::object attention_backward_call(nb::handle grad_context_given, nb::handle saved_given,
                                   const AttentionHandles& given) {
  const AttentionCall call("attention_backward", given);
  const AttentionShape& s = call.shape();
  if (grad_context_given.is_none()) {
    throw DTypeError("attention_backward: grad_context must be a numpy array, got NoneType");
  }
  const ArrayArgument grad_context(call.who(), "grad_context", grad_context_given);
  require_same_dtype(grad_context, call.q);
  check_shape(call.who(), "grad_context", grad_context.shape(),
              {{"batch", s.batch}, {"heads", s.heads}, {"seq_q", s.seq_q}, {"v_head_dim", s.v_head_dim}});
  const bool has_saved = !saved_given.is_none();
  if (has_saved && !nb::isinstance<SavedAttention>(saved_given)) {
    throw DTypeError("attention_backward: saved must be what attention(..., save=True) returned, got " +
                     type_text(saved_given));
  }
  if (has_saved) check_saved_fits(nb::cast<const SavedAttention&>(saved_given), call);
  const GradientArrays arrays = allocate_gradients(call);
  const SavedAttention recomputed = has_saved ? SavedAttention{} : recompute(call);
  const SavedAttention& saved = has_saved ? nb::cast<const SavedAttention&>(saved_given) : recomputed;
  with_float_type(call.dtype(), [&](auto zero) { run_backward<decltype(zero)>(call, grad_context, saved, arrays); });
  return nb::make_tuple(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5]);
}

// Defines a function all of whose arguments may be None.
template <class Function, std::size_t... At>
void define(nb::module_& module, const char* name, Function function, std::index_sequence<At...>) {
  module.def(name, function, (static_cast<void>(At), nb::arg().none())...);
}

}  // namespace

void bind_attention(nb::module_& module) {
  using H = nb::handle;
  const auto forward = [](H q, H k, H v, H mask, H bias, H causal, H query_offset, H window, H kv_lengths, H scale,
                          H softcap, H alibi_slopes, H sinks, H dropout, H seed, H batch_offset, H head_offset,
                          H return_lse, H return_weights, H stats, H save, H out) {
    return attention(
        {q, k, v, mask, bias, causal, query_offset, window, kv_lengths, scale, softcap, alibi_slopes, sinks, dropout,
         seed, batch_offset, head_offset},
        {nb::borrow(return_lse), nb::borrow(return_weights), nb::borrow(stats), nb::borrow(save), nb::borrow(out)});
  };
  const auto backward = [](H grad_context, H saved, H q, H k, H v, H mask, H bias, H causal, H query_offset, H window,
                           H kv_lengths, H scale, H softcap, H alibi_slopes, H sinks, H dropout, H seed, H batch_offset,
                           H head_offset) {
    return attention_backward_call(grad_context, saved,
                                   {q, k, v, mask, bias, causal, query_offset, window, kv_lengths, scale, softcap,
                                    alibi_slopes, sinks, dropout, seed, batch_offset, head_offset});
  };
  define(module, "attention", forward, std::make_index_sequence<22>{});
  define(module, "attention_backward", backward, std::make_index_sequence<19>{});
}

}  // namespace headwise::python
