// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "headwise/layers/attention_layer.h"
#include "headwise/layers/head_views.h"
#include "headwise/layers/token_rows.h"
#include "headwise/layers/turn_projections.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

void check_context_length(const AttentionConfig& config, std::string_view argument, Index seq) {
  if (!config.context_length || seq <= *config.context_length) return;
  throw ArgumentError(fmt::format("{}: {} has seq={} tokens, above context_length={}", config.who, argument, seq,
                                  *config.context_length));
}

template <class T>
void check_inputs(const AttentionConfig& config, const TensorView<const T, 3>& x,
                  const TensorView<const T, 3>& keys_values, const TensorView<T, 3>& out) {
  check_shape(config.who, "x", x, {{"batch"}, {"seq"}, {"d_in", config.d_in}});
  check_context_length(config, "x", x.size(1));
  if (keys_values && config.rotary) {
    throw ArgumentError(config.who +
                        ": keys_values cannot be given to a layer with rotary positions, whose keys are those of x");
  }
  if (keys_values) {
    check_shape(config.who, "keys_values", keys_values, {{"batch", x.size(0)}, {"seq_kv"}, {"d_in", config.d_in}});
    check_context_length(config, "keys_values", keys_values.size(1));
  }
  check_shape(config.who, "out", out, {{"batch", x.size(0)}, {"seq", x.size(1)}, {"d_out", config.d_out}});
}

template <class T>
void check_extras(const std::string& who, const AttentionSizes& sizes, Index batch, Index seq_q, Index seq_kv,
                  const LayerOutputs<T>& extras) {
  const Axis first{"batch", batch}, heads{"heads", sizes.heads}, kv_heads{"kv_heads", sizes.kv_heads};
  const Axis rows{"seq_q", seq_q}, keys{"seq_kv", seq_kv}, width{"head_dim", sizes.head_dim};
  if (extras.queries) check_shape(who, "queries", extras.queries, {first, heads, rows, width});
  if (extras.keys) check_shape(who, "keys", extras.keys, {first, kv_heads, keys, width});
  if (extras.values) check_shape(who, "values", extras.values, {first, kv_heads, keys, width});
  if (extras.context) check_shape(who, "context", extras.context, {first, heads, rows, width});
}

// Keeps the block of a tensor whose size has not changed since the last forward.
template <class T>
void resize_or_drop(Tensor<T, 3>& tensor, bool wanted, const Shape<3>& shape) {
  if (!wanted) {
    tensor = {};
  } else if (!tensor || tensor.shape() != shape) {
    tensor = Tensor<T, 3>(shape);
  }
}

// What backward needs beside the projections and the context.
template <class T>
void keep_inputs(TensorView<const T, 3> x, TensorView<const T, 3> keys_values, Index heads, Activations<T>& kept) {
  resize_or_drop(kept.x, true, x.shape());
  copy_elements(x, kept.x.view());
  resize_or_drop(kept.keys_values, static_cast<bool>(keys_values), keys_values.shape());
  if (keys_values) copy_elements(keys_values, kept.keys_values.view());
  resize_or_drop(kept.row_max, true, {x.size(0), heads, x.size(1)});
  resize_or_drop(kept.row_sum, true, {x.size(0), heads, x.size(1)});
}

template <class T>
void copy_if_given(const TensorView<const T, 4>& source, const TensorView<T, 4>& target) {
  if (target) copy_elements(source, target);
}

}  // namespace

template <class T>
Tensor<T, 3> AttentionLayer<T>::forward(TensorView<const T, 3> x, TensorView<const T, 3> keys_values,
                                        const ForwardOptions<T>& options, Activations<T>* saved,
                                        const LayerOutputs<T>& extras, const Execution& execution) const {
  check_shape(config_.who, "x", x, {{"batch"}, {"seq"}, {"d_in", config_.d_in}});
  Tensor<T, 3> out(Shape<3>{x.size(0), x.size(1), config_.d_out});
  forward_into(x, keys_values, options, out.view(), saved, extras, execution);
  return out;
}

template <class T>
void AttentionLayer<T>::forward_into(TensorView<const T, 3> x, TensorView<const T, 3> keys_values,
                                     const ForwardOptions<T>& options, TensorView<T, 3> out, Activations<T>* saved,
                                     const LayerOutputs<T>& extras, const Execution& execution) const {
  const Index batch = x.size(0), seq_q = x.size(1), seq_kv = keys_values ? keys_values.size(1) : seq_q;
  check_inputs(config_, x, keys_values, out);
  check_extras(config_.who, sizes_, batch, seq_q, seq_kv, extras);
  Activations<T> local;
  Activations<T>& kept = saved != nullptr ? *saved : local;
  kept.complete = false;
  kept.options = options;
  kept.dropout = {options.dropout.training ? config_.dropout : 0.0, options.dropout.seed.value_or(seed_),
                  options.dropout.call, options.dropout.batch_offset, options.dropout.head_offset};
  resize_or_drop(kept.projected, true, {batch, seq_q, keys_values ? sizes_.query_width() : sizes_.stacked_rows()});
  resize_or_drop(kept.projected_keys_values, static_cast<bool>(keys_values), {batch, seq_kv, 2 * sizes_.kv_width()});
  const AttentionProblem<T> problem = attention_problem(config_, sizes_, kept);
  const AttentionShape shape = check_attention(config_.who, problem);
  check_turns(config_, problem.visibility, shape);

  project(x, keys_values, kept, execution);
  normalize(kept, saved != nullptr, execution);
  turn_projections(config_, sizes_, problem.visibility, shape, kept.projected.view(), false, execution);
  if (saved != nullptr) keep_inputs(x, keys_values, sizes_.heads, kept);
  // The merged heads are the output itself where nothing comes after them and nobody needs them again.
  const bool in_place = !config_.out_proj && saved == nullptr;
  resize_or_drop(kept.context, !in_place, {batch, seq_q, sizes_.query_width()});
  const TensorView<T, 3> merged = in_place ? out : kept.context.view();
  const AttentionOutputs<T> outputs{heads_of(merged, 0, sizes_.query_width(), sizes_.heads),
                                    extras.logsumexp,
                                    kept.row_max.view(),
                                    kept.row_sum.view(),
                                    extras.weights,
                                    extras.weights_after_dropout,
                                    extras.statistics};
  attention_forward(problem, outputs, execution);
  copy_if_given(problem.inputs.queries, extras.queries);
  copy_if_given(problem.inputs.keys, extras.keys);
  copy_if_given(problem.inputs.values, extras.values);
  copy_if_given<T>(outputs.context, extras.context);

  if (config_.out_proj) {
    OutputRows<T> rows(out);
    out_proj_.forward(out_proj_.all_rows(), token_rows(std::as_const(kept.context)), rows.view(), execution);
    rows.store();
  } else if (!in_place) {
    copy_elements(merged, out);
  }
  kept.complete = true;
}

template <class T>
void AttentionLayer<T>::project(TensorView<const T, 3> x, TensorView<const T, 3> keys_values, Activations<T>& kept,
                                const Execution& execution) const {
  const RowRange own_rows = keys_values ? sizes_.query_rows() : qkv_.all_rows();
  qkv_.forward(own_rows, InputRows<T>(x).view(), token_rows(kept.projected), execution);
  if (!keys_values) return;
  qkv_.forward(sizes_.key_value_rows(), InputRows<T>(keys_values).view(), token_rows(kept.projected_keys_values),
               execution);
}

template <class T>
void AttentionLayer<T>::normalize(Activations<T>& kept, bool keep, const Execution& execution) const {
  if (!query_norm_) return;
  const ProjectedRows<T> rows = projected_rows<T>(sizes_, kept.projected.view(), kept.projected_keys_values.view());
  resize_or_drop(kept.queries_before_norm, keep, rows.queries.shape());
  resize_or_drop(kept.keys_before_norm, keep, rows.keys.shape());
  if (keep) {
    copy_elements<T>(rows.queries, kept.queries_before_norm.view());
    copy_elements<T>(rows.keys, kept.keys_before_norm.view());
  }
  query_norm_.forward(rows.queries, execution);
  key_norm_.forward(rows.keys, execution);
}

#define HEADWISE_FORWARD(T)                                                                                           \
  template Tensor<T, 3> AttentionLayer<T>::forward(TensorView<const T, 3>, TensorView<const T, 3>,                    \
                                                   const ForwardOptions<T>&, Activations<T>*, const LayerOutputs<T>&, \
                                                   const Execution&) const;                                           \
  template void AttentionLayer<T>::forward_into(TensorView<const T, 3>, TensorView<const T, 3>,                       \
                                                const ForwardOptions<T>&, TensorView<T, 3>, Activations<T>*,          \
                                                const LayerOutputs<T>&, const Execution&) const;                      \
  template void AttentionLayer<T>::project(TensorView<const T, 3>, TensorView<const T, 3>, Activations<T>&,           \
                                           const Execution&) const;                                                   \
  template void AttentionLayer<T>::normalize(Activations<T>&, bool, const Execution&) const;
HEADWISE_FORWARD(float)
HEADWISE_FORWARD(double)
#undef HEADWISE_FORWARD

}  // namespace headwise
