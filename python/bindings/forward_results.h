// SPDX-License-Identifier: Apache-2.0
// The arrays one forward writes: context, logsumexp, weights, statistics, and what backward will need.
#ifndef HEADWISE_PYTHON_BINDINGS_FORWARD_RESULTS_H_
#define HEADWISE_PYTHON_BINDINGS_FORWARD_RESULTS_H_

#include "python/bindings/attention_call.h"
#include "python/bindings/requested_outputs.h"

namespace headwise::python {

inline Shape<4> context_shape(const AttentionShape& s) { return {s.batch, s.heads, s.seq_q, s.v_head_dim}; }
inline Shape<3> row_shape(const AttentionShape& s) { return {s.batch, s.heads, s.seq_q}; }

// What a caller asks for, as given; as it stands, the context alone in an array of ours.
struct ResultHandles {
  nb::object return_lse = nb::bool_(false), return_weights = nb::bool_(false), stats = nb::none(),
             save = nb::bool_(false), out = nb::none();
};

class ForwardResults {
 public:
  // Checks what was asked for, then whether it fits into memory, then makes the arrays. Borrows the call.
  ForwardResults(const AttentionCall& call, const ResultHandles& given);

  // T must be the call's dtype.
  template <class T>
  AttentionOutputs<T> outputs() const;

  bool only_context() const { return !lse_ && !save_ && !requested_.weights() && !requested_.stats(); }
  bool saves() const { return save_; }
  bool out_is_callers() const { return out_is_callers_; }

  const nb::object& context() const { return context_array_; }
  // What backward needs of the context: for 16-bit types a float32 array of its own, else the context itself.
  const nb::object& saved_context() const { return rounds() ? unrounded_array_ : context_array_; }
  const nb::object& row_max() const { return row_max_array_; }
  const nb::object& row_sum() const { return row_sum_array_; }
  // None where not asked for.
  nb::object lse() const { return lse_ ? lse_array_ : nb::none(); }
  nb::object weights() const { return requested_.weights_result(); }
  nb::object stats() const { return requested_.stats_result(); }

 private:
  void take_out(nb::handle given);
  void check_memory() const;
  bool rounds() const { return accumulated_dtype(call_.dtype()) != call_.dtype(); }

  const AttentionCall& call_;
  bool lse_ = false, save_ = false, out_is_callers_ = false;
  RequestedOutputs requested_;
  nb::object context_array_, unrounded_array_, lse_array_, row_max_array_, row_sum_array_;
};

extern template AttentionOutputs<float> ForwardResults::outputs() const;
extern template AttentionOutputs<double> ForwardResults::outputs() const;
extern template AttentionOutputs<float16> ForwardResults::outputs() const;
extern template AttentionOutputs<bfloat16> ForwardResults::outputs() const;

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_FORWARD_RESULTS_H_
