// SPDX-License-Identifier: Apache-2.0
// The forward's lines, last first.
#include <string>
#include <utility>

#include "headwise/layers/attention_layer.h"
#include "headwise/layers/head_views.h"
#include "headwise/layers/token_rows.h"
#include "headwise/layers/turn_projections.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

template <class T>
void check_backward(const std::string& who, const AttentionConfig& config, const AttentionSizes& sizes,
                    const Activations<T>& saved, const TensorView<const T, 3>& grad_out, const TensorView<T, 3>& grad_x,
                    const TensorView<T, 3>& grad_keys_values) {
  if (!saved) throw StateError(who + ": the activations hold no forward");
  if (config.gradients == Gradients::kNone) throw StateError(who + ": the layer was built without gradients");
  const Axis batch{"batch", saved.x.size(0)}, seq{"seq", saved.x.size(1)}, d_in{"d_in", config.d_in};
  // Activations of another layer would be read beyond their end.
  const Index rows = saved.keys_values ? sizes.query_width() : sizes.stacked_rows();
  check_shape(who, "saved.x", saved.x.view(), {batch, seq, d_in});
  check_shape(who, "saved.projected", saved.projected.view(), {batch, seq, {"rows", rows}});
  check_shape(who, "saved.row_max", saved.row_max.view(), {batch, {"heads", sizes.heads}, seq});
  if (saved.keys_values) {
    check_shape(who, "saved.projected_keys_values", saved.projected_keys_values.view(),
                {batch, {"seq_kv"}, {"rows", 2 * sizes.kv_width()}});
  }
  if (config.query_key_norm) {
    const Index seq_kv = (saved.keys_values ? saved.keys_values : saved.x).size(1);
    check_shape(who, "saved.queries_before_norm", saved.queries_before_norm.view(),
                {batch, seq, {"rows", sizes.query_width()}});
    check_shape(who, "saved.keys_before_norm", saved.keys_before_norm.view(),
                {batch, {"seq_kv", seq_kv}, {"rows", sizes.kv_width()}});
  }
  check_shape(who, "grad_out", grad_out, {batch, seq, {"d_out", config.d_out}});
  if (grad_x) check_shape(who, "grad_x", grad_x, {batch, seq, d_in});
  if (!grad_keys_values) return;
  if (!saved.keys_values) throw ArgumentError(who + ": grad_keys_values needs a forward with keys_values");
  check_shape(who, "grad_keys_values", grad_keys_values, {batch, {"seq_kv", saved.keys_values.size(1)}, d_in});
}

// Gradients of some rows of the stacked projection, from the gradient of what they gave.
template <class T>
void backward_rows(Linear<T>& linear, RowRange rows, const Tensor<T, 3>& grad_projected, const Tensor<T, 3>& x,
                   const TensorView<T, 3>& grad_x, const Execution& execution) {
  linear.backward_weight(rows, token_rows(grad_projected), token_rows(x), execution);
  if (!grad_x) return;
  OutputRows<T> target(grad_x);
  linear.backward_x(rows, token_rows(grad_projected), target.view(), execution);
  target.store();
}

}  // namespace

template <class T>
void AttentionLayer<T>::backward(const Activations<T>& saved, TensorView<const T, 3> grad_out, TensorView<T, 3> grad_x,
                                 TensorView<T, 3> grad_keys_values, const ScoreGradients<T>& score_gradients,
                                 const Execution& execution) {
  check_backward(config_.who + ".backward", config_, sizes_, saved, grad_out, grad_x, grad_keys_values);
  const bool cross = static_cast<bool>(saved.keys_values);

  Tensor<T, 3> grad_merged;  // (batch, seq, heads * head_dim)
  TensorView<const T, 3> grad_context = grad_out;
  if (config_.out_proj) {
    const InputRows<T> grad_rows(grad_out);
    grad_merged = Tensor<T, 3>(saved.context.shape());
    out_proj_.backward_weight(out_proj_.all_rows(), grad_rows.view(), token_rows(saved.context), execution);
    out_proj_.backward_x(out_proj_.all_rows(), grad_rows.view(), token_rows(grad_merged), execution);
    grad_context = grad_merged.cview();
  }

  Tensor<T, 3> grad_projected(saved.projected.shape());
  Tensor<T, 3> grad_projected_keys_values;
  if (cross) grad_projected_keys_values = Tensor<T, 3>(saved.projected_keys_values.shape());
  const HeadViews<T> heads = head_views<T>(sizes_, grad_projected.view(), grad_projected_keys_values.view());
  const auto by_head = [this](TensorView<const T, 3> merged) {
    return heads_of(merged, 0, sizes_.query_width(), sizes_.heads);
  };
  const AttentionProblem<T> problem = attention_problem(config_, sizes_, saved);
  attention_backward<T>(problem, by_head(grad_context),
                        {by_head(saved.context.cview()), saved.row_max.cview(), saved.row_sum.cview()},
                        {heads.queries, heads.keys, heads.values, score_gradients.bias, score_gradients.alibi_slopes,
                         score_gradients.sinks},
                        execution);
  turn_projections(config_, sizes_, problem.visibility, check_attention(config_.who, problem), grad_projected.view(),
                   true, execution);
  normalize_backward(saved, grad_projected.view(), grad_projected_keys_values.view(), execution);

  backward_rows(qkv_, cross ? sizes_.query_rows() : qkv_.all_rows(), grad_projected, saved.x, grad_x, execution);
  if (cross) {
    backward_rows(qkv_, sizes_.key_value_rows(), grad_projected_keys_values, saved.keys_values, grad_keys_values,
                  execution);
  }
}

template <class T>
void AttentionLayer<T>::normalize_backward(const Activations<T>& saved, TensorView<T, 3> grad_projected,
                                           TensorView<T, 3> grad_projected_keys_values, const Execution& execution) {
  if (!query_norm_) return;
  const ProjectedRows<T> rows = projected_rows<T>(sizes_, grad_projected, grad_projected_keys_values);
  query_norm_.backward(saved.queries_before_norm.view(), rows.queries, execution);
  key_norm_.backward(saved.keys_before_norm.view(), rows.keys, execution);
}

#define HEADWISE_BACKWARD(T)                                                                                     \
  template void AttentionLayer<T>::backward(const Activations<T>&, TensorView<const T, 3>, TensorView<T, 3>,     \
                                            TensorView<T, 3>, const ScoreGradients<T>&, const Execution&);       \
  template void AttentionLayer<T>::normalize_backward(const Activations<T>&, TensorView<T, 3>, TensorView<T, 3>, \
                                                      const Execution&);
HEADWISE_BACKWARD(float)
HEADWISE_BACKWARD(double)
#undef HEADWISE_BACKWARD

}  // namespace headwise
