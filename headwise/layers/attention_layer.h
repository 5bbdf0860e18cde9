// SPDX-License-Identifier: Apache-2.0
// The one attention layer behind every face: project, split heads as views, attend, merge, project.
//
//   x (batch, seq, d_in) -> queries (batch, seq, heads, head_dim) -> (batch, heads, seq, head_dim)
//   -> context (batch, heads, seq, head_dim) -> (batch, seq, heads * head_dim) -> out (batch, seq, d_out)
#ifndef HEADWISE_LAYERS_ATTENTION_LAYER_H_
#define HEADWISE_LAYERS_ATTENTION_LAYER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/layers/activations.h"
#include "headwise/layers/attention_config.h"
#include "headwise/layers/initialization.h"
#include "headwise/layers/linear.h"
#include "headwise/layers/parameter.h"
#include "headwise/layers/projection_norm.h"
#include "headwise/layers/state.h"

namespace headwise {

// What the projections are called in a state_dict.
struct ProjectionNames {
  std::string query = "W_query", key = "W_key", value = "W_value", out = "out_proj";
  std::string query_norm = "q_norm", key_norm = "k_norm";
  bool per_head = false;  // "heads.{i}.W_query", ... instead of "W_query", ...; also the order of the initial draws
};

template <class T>
class AttentionLayer {
 public:
  // All weights zero: to be initialised or loaded. Throws as check_config does.
  AttentionLayer(const AttentionConfig& config, ProjectionNames names);

  const AttentionConfig& config() const { return config_; }
  const AttentionSizes& sizes() const { return sizes_; }
  // What the initial weights were drawn with; also the dropout seed where a call gives none.
  std::uint64_t seed() const { return seed_; }

  // Draws all weights from one generator in the order in which torch constructs the layer of these names.
  void initialize(Initialization initialization, std::uint64_t seed);

  // x: (batch, seq_q, d_in); keys_values: (batch, seq_kv, d_in), or not given for self-attention; any strides.
  // Returns (batch, seq_q, d_out). Fills `saved` when given. Throws ShapeError or ArgumentError "<who>: ...".
  Tensor<T, 3> forward(TensorView<const T, 3> x, TensorView<const T, 3> keys_values = {},
                       const ForwardOptions<T>& options = {}, Activations<T>* saved = nullptr,
                       const LayerOutputs<T>& extras = {}, const Execution& execution = {}) const;

  // The same into out: (batch, seq_q, d_out), any strides, overwritten; it may not overlap an input.
  void forward_into(TensorView<const T, 3> x, TensorView<const T, 3> keys_values, const ForwardOptions<T>& options,
                    TensorView<T, 3> out, Activations<T>* saved, const LayerOutputs<T>& extras,
                    const Execution& execution) const;

  // grad_out: (batch, seq_q, d_out). Adds to the parameters' gradients; overwrites grad_x (batch, seq_q, d_in) and
  // grad_keys_values (batch, seq_kv, d_in), each of which may be left out. Throws StateError when `saved` holds no
  // forward or the layer has no gradients, ShapeError otherwise.
  void backward(const Activations<T>& saved, TensorView<const T, 3> grad_out, TensorView<T, 3> grad_x,
                TensorView<T, 3> grad_keys_values = {}, const ScoreGradients<T>& score_gradients = {},
                const Execution& execution = {});

  // In state_dict order. Valid until the layer is moved or destroyed.
  std::vector<Parameter<T>> parameters();
  Index parameter_count() const;
  void zero_grad();

  // Copies by name; stored masks are ignored. Throws as load_parameters does ("<who>.load: ...").
  void load(std::span<const NamedTensor> tensors);
  // Borrows the layer's storage.
  std::vector<NamedTensor> state();

  // The two projections, for conversions: queries, keys and values stacked (stacked_rows, d_in), and the output.
  Linear<T>& qkv() { return qkv_; }
  const Linear<T>& qkv() const { return qkv_; }
  Linear<T>& out_proj() { return out_proj_; }
  const Linear<T>& out_proj() const { return out_proj_; }

 protected:
  // Takes the weights of a layer of the same sizes.
  AttentionLayer(const AttentionLayer& source, std::string who, ProjectionNames names);

 private:
  // The norms of queries and keys, in place; with `keep`, what they were before stays in `kept`.
  void normalize(Activations<T>& kept, bool keep, const Execution& execution) const;
  // Takes the gradients of normalized queries and keys back through the norms, in place.
  void normalize_backward(const Activations<T>& saved, TensorView<T, 3> grad_projected,
                          TensorView<T, 3> grad_projected_keys_values, const Execution& execution);

  // Fills the projections of `kept`.
  void project(TensorView<const T, 3> x, TensorView<const T, 3> keys_values, Activations<T>& kept,
               const Execution& execution) const;

  AttentionConfig config_;
  AttentionSizes sizes_;
  ProjectionNames names_;
  std::uint64_t seed_ = 0;
  Linear<T> qkv_;
  Linear<T> out_proj_;
  ProjectionNorm<T> query_norm_, key_norm_;  // where the config has them
};

extern template class AttentionLayer<float>;
extern template class AttentionLayer<double>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_ATTENTION_LAYER_H_
