// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/attention_carry.h"

#include <limits>
#include <vector>

#include "headwise/kernels/attention_check.h"
#include "headwise/kernels/canonical.h"
#include "headwise/kernels/forward_call.h"
#include "headwise/kernels/row_results.h"
#include "headwise/kernels/widened.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

template <class A>
void check_carry(const char* who, const AttentionCarry<A>& carry, Index batch, Index heads, Index seq_q,
                 Index v_head_dim) {
  const Axis first{"batch", batch}, second{"heads", heads}, third{"seq_q", seq_q};
  check_shape(who, "carry context", carry.context, {first, second, third, {"v_head_dim", v_head_dim}});
  check_shape(who, "carry row_max", carry.row_max, {first, second, third});
  check_shape(who, "carry row_sum", carry.row_sum, {first, second, third});
}

}  // namespace

template <class T>
void attention_accumulate(const AttentionProblem<T>& problem, const AttentionCarry<Accumulated<T>>& carry,
                          const Execution& execution) {
  using A = Accumulated<T>;
  constexpr const char* kWho = "attention_accumulate";
  const AttentionShape shape = check_attention(kWho, problem);
  check_carry(kWho, carry, shape.batch, shape.heads, shape.seq_q, shape.v_head_dim);
  if (execution.cancelled()) throw Cancelled();
  const Isa isa = chosen_isa();
  if (isa == Isa::kCanonical) {
    const WideProblem<A, T> wide(problem);
    return canonical::attention_accumulate(wide.problem, shape, carry, execution);
  }
  run_forward(problem, shape, AttentionOutputs<T>{}, execution, isa, static_cast<const PackedStore<T>*>(nullptr),
              &carry);
}

template <class T>
void attention_finish(const AttentionCarry<Accumulated<T>>& carry, const DropoutRule& dropout,
                      const AttentionOutputs<T>& outputs) {
  using A = Accumulated<T>;
  const Shape<4>& shape = outputs.context.shape();
  check_carry("attention_finish", carry, shape[0], shape[1], shape[2], shape[3]);
  AttentionOutputs<T> written = outputs;
  written.weights = {};
  written.statistics = {};
  check_attention_outputs("attention_finish", {shape[0], shape[1], 0, shape[2], 0, 0, shape[3]}, written);
  TileRules<A> rules;
  rules.dropout_threshold = dropout_threshold(dropout.probability);
  rules.keep_scale = static_cast<A>(dropout_keep_scale(rules.dropout_threshold));
  std::vector<A> context(static_cast<std::size_t>(shape[3]));
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index i = 0; i < shape[2]; ++i) {
        const A sum = carry.row_sum(b, h, i);
        for (Index d = 0; d < shape[3]; ++d) context[d] = sum == 0 ? A{0} : carry.context(b, h, i, d);
        const A max = sum == 0 ? -std::numeric_limits<A>::infinity() : carry.row_max(b, h, i);
        write_row_results<T>(written, {b, h, i}, rules, context.data(), max, sum);
      }
    }
  }
}

#define HEADWISE_CARRY(T)                                                                               \
  template void attention_accumulate(const AttentionProblem<T>&, const AttentionCarry<Accumulated<T>>&, \
                                     const Execution&);                                                 \
  template void attention_finish(const AttentionCarry<Accumulated<T>>&, const DropoutRule&, const AttentionOutputs<T>&);
HEADWISE_CARRY(float)
HEADWISE_CARRY(double)
HEADWISE_CARRY(float16)
HEADWISE_CARRY(bfloat16)
#undef HEADWISE_CARRY

}  // namespace headwise
