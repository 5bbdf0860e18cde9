// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/forward_results.h"

#include "headwise/tensor/shape_check.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {

ForwardResults::ForwardResults(const AttentionCall& call, const ResultHandles& given)
    : call_(call),
      lse_(flag_argument({call.who(), "return_lse"}, given.return_lse)),
      save_(flag_argument({call.who(), "save"}, given.save)),
      requested_(call.who(), given.return_weights, given.stats) {
  requested_.check_positions(call.visibility(), call.shape());
  take_out(given.out);
  check_memory();
  const DType sums = accumulated_dtype(call.dtype());
  if (!out_is_callers_) context_array_ = new_array(context_shape(call.shape()), call.q);
  if (lse_) lse_array_ = new_array(row_shape(call.shape()), sums);
  if (save_) {
    if (rounds()) unrounded_array_ = new_array(context_shape(call.shape()), sums);
    row_max_array_ = new_array(row_shape(call.shape()), sums);
    row_sum_array_ = new_array(row_shape(call.shape()), sums);
  }
  requested_.allocate(call.shape(), call.q);
}

void ForwardResults::take_out(nb::handle given) {
  const ArrayArgument out(call_.who(), "out", given);
  if (!out.given()) return;
  const AttentionShape& s = call_.shape();
  require_same_dtype(out, call_.q);
  check_shape(call_.who(), "out", out.shape(),
              {{"batch", s.batch}, {"heads", s.heads}, {"seq_q", s.seq_q}, {"v_head_dim", s.v_head_dim}});
  require_output(
      call_.who(), out,
      {&call_.q, &call_.k, &call_.v, &call_.visibility().mask(), &call_.bias, &call_.alibi_slopes, &call_.sinks});
  out_is_callers_ = true;
  context_array_ = nb::borrow(given);
}

void ForwardResults::check_memory() const {
  MemoryRequest request;
  const std::size_t sum_bytes = dtype_bytes(accumulated_dtype(call_.dtype()));
  if (!out_is_callers_ || (save_ && !rounds())) {
    request.add("context", context_shape(call_.shape()), dtype_bytes(call_.dtype()));
  }
  if (lse_) request.add("lse", row_shape(call_.shape()), sum_bytes);
  if (save_) request.add("saved", row_shape(call_.shape()), 2 * sum_bytes);
  if (save_ && rounds()) request.add("saved context", context_shape(call_.shape()), sum_bytes);
  requested_.add_to(request, call_.shape(), call_.dtype());
  request.check(call_.who());
}

template <class T>
AttentionOutputs<T> ForwardResults::outputs() const {
  using A = Accumulated<T>;
  const AttentionShape& shape = call_.shape();
  AttentionOutputs<T> outputs;
  outputs.context = ArrayArgument(call_.who(), "out", context_array_).view<T, 4>();
  if (lse_) outputs.logsumexp = view_of<A, 3>(lse_array_, row_shape(shape));
  if (save_) {
    if (rounds()) outputs.unrounded_context = view_of<A, 4>(unrounded_array_, context_shape(shape));
    outputs.row_max = view_of<A, 3>(row_max_array_, row_shape(shape));
    outputs.row_sum = view_of<A, 3>(row_sum_array_, row_shape(shape));
  }
  requested_.fill_views(shape, outputs.weights, outputs.weights_after_dropout, outputs.statistics);
  return outputs;
}

template AttentionOutputs<float> ForwardResults::outputs() const;
template AttentionOutputs<double> ForwardResults::outputs() const;
template AttentionOutputs<float16> ForwardResults::outputs() const;
template AttentionOutputs<bfloat16> ForwardResults::outputs() const;

}  // namespace headwise::python
