// SPDX-License-Identifier: Apache-2.0
// Stand-ins of another element type: inputs are copied into them, results are rounded out of them. Used where an oracle
// (reference in double, canonical in float for 16-bit storage) runs a problem of a narrower type.
#ifndef HEADWISE_KERNELS_WIDENED_H_
#define HEADWISE_KERNELS_WIDENED_H_

#include "headwise/kernels/attention.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

template <class From, class To, int Rank, class Convert>
void convert_elements(TensorView<From, Rank> from, TensorView<To, Rank> to, const Convert& convert) {
  for (Index i = 0; i < from.size(0); ++i) {
    if constexpr (Rank == 1) {
      to(i) = convert(from(i));
    } else {
      convert_elements(from.select(0, i), to.select(0, i), convert);
    }
  }
}

// A copy of a view that may be absent. Axes of stride 0 are copied out; sizes stay.
template <class W, class T, int Rank>
Tensor<W, Rank> widened(const TensorView<const T, Rank>& view) {
  if (!view) return {};
  Tensor<W, Rank> copy(view.shape());
  convert_elements(view, copy.view(), [](T value) { return widen<W>(value); });
  return copy;
}

// A stand-in for an output that may be absent, rounded into it by store().
template <class W, class T, int Rank>
class Rounded {
 public:
  explicit Rounded(const TensorView<T, Rank>& target) : target_(target) {
    if (target) wide_ = Tensor<W, Rank>(target.shape());
  }
  TensorView<W, Rank> view() { return target_ ? wide_.view() : TensorView<W, Rank>{}; }
  void store() {
    if (target_) convert_elements(wide_.view(), target_, [](W value) { return narrow<T>(value); });
  }

 private:
  TensorView<T, Rank> target_;
  Tensor<W, Rank> wide_;
};

template <class W, class T>
struct WideProblem {
  explicit WideProblem(const AttentionProblem<T>& source)
      : queries(widened<W>(source.inputs.queries)),
        keys(widened<W>(source.inputs.keys)),
        values(widened<W>(source.inputs.values)),
        bias(widened<W>(source.rule.bias)),
        alibi_slopes(widened<W>(source.rule.alibi_slopes)),
        sinks(widened<W>(source.rule.sinks)) {
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    problem.rule = {source.rule.scale, source.rule.softcap, bias.cview(), alibi_slopes.cview(), sinks.cview()};
    problem.visibility = source.visibility;
    problem.dropout = source.dropout;
  }
  Tensor<W, 4> queries, keys, values, bias;
  Tensor<W, 1> alibi_slopes, sinks;
  AttentionProblem<W> problem;
};

template <class W, class T>
struct WideOutputs {
  using A = Accumulated<T>;
  explicit WideOutputs(const AttentionOutputs<T>& target)
      : context(target.context),
        weights(target.weights),
        unrounded_context(target.unrounded_context),
        logsumexp(target.logsumexp),
        row_max(target.row_max),
        row_sum(target.row_sum),
        entropy(target.statistics.entropy),
        max_weight(target.statistics.max_weight),
        distance(target.statistics.distance),
        self(target.statistics.self),
        previous(target.statistics.previous),
        next(target.statistics.next),
        first(target.statistics.first),
        received(target.statistics.received) {
    outputs.context = context.view();
    outputs.unrounded_context = unrounded_context.view();
    outputs.logsumexp = logsumexp.view();
    outputs.row_max = row_max.view();
    outputs.row_sum = row_sum.view();
    outputs.weights = weights.view();
    outputs.weights_after_dropout = target.weights_after_dropout;
    outputs.statistics = {entropy.view(),  max_weight.view(), target.statistics.top_keys,
                          distance.view(), self.view(),       previous.view(),
                          next.view(),     first.view(),      received.view()};
  }
  void store() {
    context.store();
    unrounded_context.store();
    weights.store();
    for (auto* row : {&logsumexp, &row_max, &row_sum, &entropy, &max_weight, &distance, &self, &previous, &next, &first,
                      &received}) {
      row->store();
    }
  }
  Rounded<W, T, 4> context, weights;
  Rounded<W, A, 4> unrounded_context;
  Rounded<W, A, 3> logsumexp, row_max, row_sum, entropy, max_weight, distance, self, previous, next, first, received;
  AttentionOutputs<W> outputs;
};

template <class W, class T>
struct WideGradients {
  using A = Accumulated<T>;
  explicit WideGradients(const AttentionGradients<T>& target)
      : queries(target.queries),
        keys(target.keys),
        values(target.values),
        bias(target.bias),
        alibi_slopes(target.alibi_slopes),
        sinks(target.sinks) {
    gradients = {queries.view(), keys.view(), values.view(), bias.view(), alibi_slopes.view(), sinks.view()};
  }
  void store() {
    for (auto* gradient : {&queries, &keys, &values, &bias}) gradient->store();
    alibi_slopes.store();
    sinks.store();
  }
  Rounded<W, T, 4> queries, keys, values, bias;
  Rounded<W, A, 1> alibi_slopes, sinks;
  AttentionGradients<W> gradients;
};

}  // namespace headwise

#endif  // HEADWISE_KERNELS_WIDENED_H_
