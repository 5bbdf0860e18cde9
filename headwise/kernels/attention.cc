// SPDX-License-Identifier: Apache-2.0
// The checked entry points. The canonical program runs on machines without fused multiply-add in vectors, and when
// asked.
#include "headwise/kernels/attention.h"

#include <string>
#include <type_traits>

#include "headwise/kernels/attention_check.h"
#include "headwise/kernels/backward_call.h"
#include "headwise/kernels/canonical.h"
#include "headwise/kernels/forward_call.h"
#include "headwise/kernels/widened.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

template <class T>
void check_gradients(const AttentionShape& s, const AttentionProblem<T>& problem,
                     const TensorView<const T, 4>& grad_context, const AttentionGradients<T>& gradients) {
  const char* who = "attention_backward";
  check_shape(who, "grad_context", grad_context,
              {{"batch", s.batch}, {"heads", s.heads}, {"seq_q", s.seq_q}, {"v_head_dim", s.v_head_dim}});
  const auto like = [who](const char* name, const auto& gradient, const auto& value) {
    if (gradient && gradient.shape() != value.shape()) {
      throw ShapeError(std::string(who) + ": " + name + " must have the shape " + format_shape(value.shape()) +
                       ", got " + format_shape(gradient.shape()));
    }
  };
  like("grad_queries", gradients.queries, problem.inputs.queries);
  like("grad_keys", gradients.keys, problem.inputs.keys);
  like("grad_values", gradients.values, problem.inputs.values);
  like("grad_bias", gradients.bias, problem.rule.bias);
  like("grad_alibi_slopes", gradients.alibi_slopes, problem.rule.alibi_slopes);
  like("grad_sinks", gradients.sinks, problem.rule.sinks);
}

template <class T>
void check_saved(const AttentionShape& s, const AttentionSaved<T>& saved) {
  const char* who = "attention_backward";
  const Axis batch{"batch", s.batch}, heads{"heads", s.heads}, rows{"seq_q", s.seq_q};
  check_shape(who, "saved context", saved.context, {batch, heads, rows, {"v_head_dim", s.v_head_dim}});
  check_shape(who, "saved row_max", saved.row_max, {batch, heads, rows});
  check_shape(who, "saved row_sum", saved.row_sum, {batch, heads, rows});
}

template <class T>
void canonical_forward(const AttentionProblem<T>& problem, const AttentionShape& shape,
                       const AttentionOutputs<T>& outputs, const Execution& execution) {
  using A = Accumulated<T>;
  if constexpr (std::is_same_v<T, A>) {
    canonical::attention_forward(problem, shape, outputs, execution);
  } else {
    const WideProblem<A, T> wide(problem);
    WideOutputs<A, T> wide_outputs(outputs);
    canonical::attention_forward(wide.problem, shape, wide_outputs.outputs, execution);
    wide_outputs.store();
  }
}

template <class T>
void canonical_backward(const AttentionProblem<T>& problem, const AttentionShape& shape,
                        const TensorView<const T, 4>& grad_context, const AttentionSaved<T>& saved,
                        const AttentionGradients<T>& gradients, const Execution& execution) {
  using A = Accumulated<T>;
  if constexpr (std::is_same_v<T, A>) {
    canonical::attention_backward(problem, shape, grad_context, saved, gradients, execution);
  } else {
    const WideProblem<A, T> wide(problem);
    const Tensor<A, 4> wide_grad = widened<A>(grad_context);
    WideGradients<A, T> wide_gradients(gradients);
    canonical::attention_backward(wide.problem, shape, wide_grad.cview(), {saved.context, saved.row_max, saved.row_sum},
                                  wide_gradients.gradients, execution);
    wide_gradients.store();
  }
}

}  // namespace

template <class T>
void attention_forward(const AttentionProblem<T>& problem, const AttentionOutputs<T>& outputs,
                       const Execution& execution) {
  const AttentionShape shape = check_attention("attention", problem);
  check_attention_outputs("attention", shape, outputs);
  if (execution.cancelled()) throw Cancelled();
  const Isa isa = chosen_isa();
  if (isa == Isa::kCanonical) return canonical_forward(problem, shape, outputs, execution);
  run_forward(problem, shape, outputs, execution, isa);
}

template <class T>
void attention_backward(const AttentionProblem<T>& problem, TensorView<const T, 4> grad_context,
                        const AttentionSaved<T>& saved, const AttentionGradients<T>& gradients,
                        const Execution& execution) {
  const AttentionShape shape = check_attention("attention_backward", problem);
  check_gradients(shape, problem, grad_context, gradients);
  check_saved(shape, saved);
  if (execution.cancelled()) throw Cancelled();
  const Isa isa = chosen_isa();
  if (isa == Isa::kCanonical) {
    return canonical_backward(problem, shape, grad_context, saved, gradients, execution);
  }
  run_backward(problem, shape, grad_context, saved, gradients, execution, isa);
}

#define HEADWISE_ATTENTION(T)                                                                              \
  template HEADWISE_EXPORT void attention_forward(const AttentionProblem<T>&, const AttentionOutputs<T>&,  \
                                                  const Execution&);                                       \
  template HEADWISE_EXPORT void attention_backward(const AttentionProblem<T>&, TensorView<const T, 4>,     \
                                                   const AttentionSaved<T>&, const AttentionGradients<T>&, \
                                                   const Execution&);
HEADWISE_ATTENTION(float)
HEADWISE_ATTENTION(double)
HEADWISE_ATTENTION(float16)
HEADWISE_ATTENTION(bfloat16)
#undef HEADWISE_ATTENTION

}  // namespace headwise
