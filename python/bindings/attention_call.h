// SPDX-License-Identifier: Apache-2.0
// One call of headwise.attention or attention_backward: every argument checked, and the problem it poses.
#ifndef HEADWISE_PYTHON_BINDINGS_ATTENTION_CALL_H_
#define HEADWISE_PYTHON_BINDINGS_ATTENTION_CALL_H_

#include <optional>
#include <string_view>

#include "headwise/kernels/attention.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/visibility_arguments.h"

namespace headwise::python {

// What both calls take, in the order of their signatures.
struct AttentionHandles {
  nb::handle q, k, v, mask, bias, causal, query_offset, window, kv_lengths, scale, softcap, alibi_slopes, sinks,
      dropout, seed, batch_offset, head_offset;
  ArrayLibrary arrays = ArrayLibrary::kNumpy;
};

// Keys and values that lie in a cache already: their type and sizes.
struct CachedKeys {
  DType dtype = DType::kFloat32;
  Index batch = 0, kv_heads = 0, seq_kv = 0, head_dim = 0, v_head_dim = 0;
};

class AttentionCall {
 public:
  // Throws whatever is wrong with an argument, before anything is computed or allocated.
  AttentionCall(std::string_view who, const AttentionHandles& given);
  // A call against a cache: k, v, kv_lengths and dropout are not taken, and query rows stand at the end unless told
  // otherwise. Of keys and values the problem has the sizes alone.
  AttentionCall(std::string_view who, const AttentionHandles& given, const CachedKeys& cached);

  std::string_view who() const { return who_; }
  DType dtype() const { return *q.dtype(); }
  const AttentionShape& shape() const { return shape_; }
  const VisibilityArguments& visibility() const { return visibility_; }
  const DropoutRule& dropout() const { return dropout_; }
  std::optional<double> scale() const { return scale_; }
  std::optional<double> softcap() const { return softcap_; }

  // Multiply-adds of the two products of a forward over all keys.
  double operations() const;

  // Borrows from this object. T must be the call's dtype.
  template <class T>
  AttentionProblem<T> problem() const {
    AttentionProblem<T> problem;
    problem.inputs = {q.view<const T, 4>(), k.view<const T, 4>(), v.view<const T, 4>()};
    if (!k.given()) {
      problem.inputs.keys = {nullptr, {shape_.batch, shape_.kv_heads, shape_.seq_kv, shape_.head_dim}};
      problem.inputs.values = {nullptr, {shape_.batch, shape_.kv_heads, shape_.seq_kv, shape_.v_head_dim}};
    }
    problem.rule = {scale_, softcap_, bias.view<const T, 4>(), alibi_slopes.view<const Accumulated<T>, 1>(),
                    sinks.view<const Accumulated<T>, 1>()};
    problem.visibility = visibility_.visibility();
    problem.dropout = dropout_;
    return problem;
  }

  ArrayArgument q, k, v, bias, alibi_slopes, sinks;

 private:
  ArrayArgument required_array(const char* name, nb::handle object, ArrayLibrary library) const;
  void take_inputs(const AttentionHandles& given);
  void take_queries(nb::handle given, const CachedKeys& cached);
  void take_rule(const AttentionHandles& given);
  void take_dropout(const AttentionHandles& given);

  std::string who_;
  AttentionShape shape_;
  VisibilityArguments visibility_;
  std::optional<double> scale_, softcap_;
  DropoutRule dropout_;
};

// Calls body(T{}) with T the C++ type of the elements. dtype: one of the four that require_float lets pass.
template <class Body>
decltype(auto) with_float_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat16:
      return body(float16{});
    case DType::kBFloat16:
      return body(bfloat16{});
    case DType::kFloat64:
      return body(double{});
    default:
      return body(float{});
  }
}

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_ATTENTION_CALL_H_
