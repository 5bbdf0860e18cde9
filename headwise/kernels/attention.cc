// SPDX-License-Identifier: Apache-2.0
// The checked entry points. They run the reference: inputs are widened to double, results rounded once.
#include "headwise/kernels/attention.h"

#include <string>
#include <utility>

#include "headwise/kernels/reference.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/tensor.h"

namespace headwise {
namespace {

// A double copy of a view that may be absent. Axes of stride 0 are copied out; sizes stay.
template <class T, int Rank>
Tensor<double, Rank> widened(const TensorView<const T, Rank>& view) {
  if (!view) return {};
  Tensor<double, Rank> copy(view.shape());
  copy_elements(view, copy.view());
  return copy;
}

// A double stand-in for an output that may be absent, rounded into it at the end.
template <class T, int Rank>
class Rounded {
 public:
  explicit Rounded(const TensorView<T, Rank>& target) : target_(target) {
    if (target) wide_ = Tensor<double, Rank>(target.shape());
  }
  TensorView<double, Rank> view() { return target_ ? wide_.view() : TensorView<double, Rank>{}; }
  void store() {
    if (target_) copy_elements(wide_.view(), target_);
  }

 private:
  TensorView<T, Rank> target_;
  Tensor<double, Rank> wide_;
};

template <class T>
struct WideProblem {
  explicit WideProblem(const AttentionProblem<T>& source)
      : queries(widened(source.inputs.queries)),
        keys(widened(source.inputs.keys)),
        values(widened(source.inputs.values)),
        bias(widened(source.rule.bias)),
        alibi_slopes(widened(source.rule.alibi_slopes)),
        sinks(widened(source.rule.sinks)) {
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    problem.rule = {source.rule.scale, source.rule.softcap, bias.cview(), alibi_slopes.cview(), sinks.cview()};
    problem.visibility = source.visibility;
    problem.dropout = source.dropout;
  }
  Tensor<double, 4> queries, keys, values, bias;
  Tensor<double, 1> alibi_slopes, sinks;
  AttentionProblem<double> problem;
};

template <class T>
void check_outputs(const AttentionShape& s, const AttentionOutputs<T>& outputs) {
  const char* who = "attention";
  const Axis batch{"batch", s.batch}, heads{"heads", s.heads}, rows{"seq_q", s.seq_q}, keys{"seq_kv", s.seq_kv};
  check_shape(who, "context", outputs.context, {batch, heads, rows, {"v_head_dim", s.v_head_dim}});
  if (outputs.weights) check_shape(who, "weights", outputs.weights, {batch, heads, rows, keys});
  const AttentionStatistics<T>& stats = outputs.statistics;
  if (stats.top_keys) check_shape(who, "top_keys", stats.top_keys, {batch, heads, rows, {"k"}});
  if (stats.received) check_shape(who, "received", stats.received, {batch, heads, keys});
  const std::pair<const char*, const TensorView<T, 3>*> per_row[] = {
      {"logsumexp", &outputs.logsumexp}, {"row_max", &outputs.row_max}, {"row_sum", &outputs.row_sum},
      {"entropy", &stats.entropy},       {"max_weight", &stats.max_weight}, {"distance", &stats.distance},
      {"self", &stats.self},             {"previous", &stats.previous},     {"next", &stats.next},
      {"first", &stats.first}};
  for (const auto& [name, view] : per_row) {
    if (*view) check_shape(who, name, *view, {batch, heads, rows});
  }
}

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

}  // namespace

template <class T>
void attention_forward(const AttentionProblem<T>& problem, const AttentionOutputs<T>& outputs,
                       const Execution& execution) {
  const AttentionShape shape = check_attention("attention", problem);
  check_outputs(shape, outputs);
  if (execution.cancelled()) throw Cancelled();
  const WideProblem<T> wide(problem);
  Rounded context(outputs.context);
  Rounded logsumexp(outputs.logsumexp), row_max(outputs.row_max), row_sum(outputs.row_sum);
  Rounded weights(outputs.weights);
  const AttentionStatistics<T>& stats = outputs.statistics;
  Rounded entropy(stats.entropy), max_weight(stats.max_weight), distance(stats.distance), self(stats.self);
  Rounded previous(stats.previous), next(stats.next), first(stats.first), received(stats.received);
  reference::attention_forward(
      wide.problem, shape,
      {context.view(), logsumexp.view(), row_max.view(), row_sum.view(), weights.view(), outputs.weights_after_dropout,
       {entropy.view(), max_weight.view(), stats.top_keys, distance.view(), self.view(), previous.view(), next.view(),
        first.view(), received.view()}});
  context.store();
  weights.store();
  for (auto* row : {&logsumexp, &row_max, &row_sum, &entropy, &max_weight, &distance, &self, &previous, &next, &first,
                    &received}) {
    row->store();
  }
}

template <class T>
void attention_backward(const AttentionProblem<T>& problem, TensorView<const T, 4> grad_context,
                        const AttentionSaved<T>& /*saved*/, const AttentionGradients<T>& gradients,
                        const Execution& execution) {
  const AttentionShape shape = check_attention("attention_backward", problem);
  check_gradients(shape, problem, grad_context, gradients);
  if (execution.cancelled()) throw Cancelled();
  const WideProblem<T> wide(problem);
  const Tensor<double, 4> wide_grad = widened(grad_context);
  Rounded queries(gradients.queries), keys(gradients.keys), values(gradients.values), bias(gradients.bias);
  Rounded alibi_slopes(gradients.alibi_slopes), sinks(gradients.sinks);
  reference::attention_backward(
      wide.problem, shape, wide_grad.cview(),
      {queries.view(), keys.view(), values.view(), bias.view(), alibi_slopes.view(), sinks.view()});
  for (auto* gradient : {&queries, &keys, &values, &bias}) gradient->store();
  alibi_slopes.store();
  sinks.store();
}

template void attention_forward(const AttentionProblem<float>&, const AttentionOutputs<float>&, const Execution&);
template void attention_forward(const AttentionProblem<double>&, const AttentionOutputs<double>&, const Execution&);
template void attention_backward(const AttentionProblem<float>&, TensorView<const float, 4>,
                                 const AttentionSaved<float>&, const AttentionGradients<float>&, const Execution&);
template void attention_backward(const AttentionProblem<double>&, TensorView<const double, 4>,
                                 const AttentionSaved<double>&, const AttentionGradients<double>&, const Execution&);

}  // namespace headwise
