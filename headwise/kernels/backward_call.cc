// SPDX-License-Identifier: Apache-2.0
// Many groups of heads: each is a task. Few: the key blocks of one group after the other are the tasks.
#include "headwise/kernels/backward_call.h"

#include <algorithm>

#include "headwise/kernels/backward_group.h"
#include "headwise/runtime/run_tasks.h"
#include "headwise/runtime/threads.h"

namespace headwise {
namespace {

template <class T>
void zero(const TensorView<T, 4>& gradient) {
  for (Index b = 0; b < gradient.size(0); ++b) {
    for (Index h = 0; h < gradient.size(1); ++h) {
      for (Index j = 0; j < gradient.size(2); ++j) {
        for (Index d = 0; d < gradient.size(3); ++d) gradient(b, h, j, d) = T{};
      }
    }
  }
}

template <class T>
class BackwardCall {
  using A = Accumulated<T>;

 public:
  BackwardCall(const AttentionProblem<T>& problem, const AttentionShape& shape,
               const TensorView<const T, 4>& grad_context, const AttentionSaved<T>& saved,
               const AttentionGradients<T>& gradients, const Execution& execution, Isa isa)
      : shape_(shape),
        gradients_(gradients),
        execution_(execution),
        functions_(backward_functions_for<A>(isa)),
        rules_(tile_rules(problem)),
        packer_{problem, shape, grad_context, saved, functions_, tile_shape_for<A>(isa), rules_.dropout_threshold > 0} {
  }

  void run() {
    if (shape_.heads == 0) return zero_keys_and_values();
    ScratchFrame frame;
    const Index rows = shape_.batch * shape_.heads * shape_.seq_q;
    double* alibi = gradients_.alibi_slopes ? frame.take<double>(rows) : nullptr;
    double* sinks = gradients_.sinks ? frame.take<double>(rows) : nullptr;
    if (alibi != nullptr) std::fill_n(alibi, rows, 0.0);
    if (sinks != nullptr) std::fill_n(sinks, rows, 0.0);
    const Index groups = shape_.batch * shape_.kv_heads;
    Executor& executor = execution_.executor != nullptr ? *execution_.executor : threads();
    const Index workers = workers_ = executor.workers();
    if (workers == 1 || groups >= 4 * workers || blocks() < 2) {
      run_tasks(execution_, groups, [&](Index group, int) { run_group(group, alibi, sinks); });
    } else {
      for (Index group = 0; group < groups; ++group) run_group_on_all(group, workers, alibi, sinks);
    }
    store_sums(gradients_.alibi_slopes, alibi);
    store_sums(gradients_.sinks, sinks);
  }

 private:
  // No query head reads them, so no group visits them.
  void zero_keys_and_values() const {
    if (gradients_.keys) zero(gradients_.keys);
    if (gradients_.values) zero(gradients_.values);
  }

  Index blocks() const { return ceil_div(shape_.seq_kv, kKeyBlock); }

  double* rows_of_group(double* all, Index group) const {
    const Index heads = shape_.heads / shape_.kv_heads;
    return all == nullptr ? nullptr : all + group * heads * shape_.seq_q;
  }

  BackwardGroup<T> make_group(ScratchFrame& frame, Index group, double* alibi, double* sinks) const {
    return BackwardGroup<T>(frame, packer_, gradients_, rules_, group / shape_.kv_heads, group % shape_.kv_heads,
                            rows_of_group(alibi, group), rows_of_group(sinks, group));
  }

  void run_group(Index number, double* alibi, double* sinks) const {
    ScratchFrame frame;
    std::atomic<bool> stop{false};
    BackwardGroup<T> group = make_group(frame, number, alibi, sinks);
    ReadAhead ahead = ahead_of(number + workers_);
    for (Index block = 0; block < blocks(); ++block) {
      if (execution_.cancelled()) throw Cancelled();
      group.run_key_block(block, stop, &ahead);
    }
    group.finish();
  }

  // The group that a worker is likely to take next: groups are claimed in order.
  ReadAhead ahead_of(Index group) const {
    ReadAhead ahead;
    if (group >= shape_.batch * shape_.kv_heads) return ahead;
    const Index b = group / shape_.kv_heads, g = group % shape_.kv_heads, heads = shape_.heads / shape_.kv_heads;
    for (Index h = g * heads; h < (g + 1) * heads; ++h) {
      ahead.add(packer_.problem.inputs.queries.select(0, b).select(0, h));
      ahead.add(packer_.grad_context.select(0, b).select(0, h));
      ahead.add(packer_.saved.context.select(0, b).select(0, h));
    }
    ahead.add(packer_.problem.inputs.keys.select(0, b).select(0, g));
    ahead.add(packer_.problem.inputs.values.select(0, b).select(0, g));
    const Index products = kKeyBlock / packer_.tile.width + kKeyBlock / packer_.tile.rows;
    ahead.spread_over(ceil_div(heads * shape_.seq_q, packer_.tile.rows) * blocks() * products / 4);
    return ahead;
  }

  // Blocks are claimed in rising order, whatever order the executor starts the tasks in.
  void run_group_on_all(Index number, Index workers, double* alibi, double* sinks) const {
    ScratchFrame frame;
    std::atomic<bool> stop{false};
    std::atomic<Index> next{0};
    BackwardGroup<T> group = make_group(frame, number, alibi, sinks);
    run_tasks(execution_, std::min(workers, blocks()), [&](Index, int) {
      try {
        for (Index block = next++; block < blocks() && !stop; block = next++) {
          if (execution_.cancelled()) throw Cancelled();
          group.run_key_block(block, stop);
        }
      } catch (...) {
        stop = true;
        throw;
      }
    });
    group.finish();
  }

  // gradient(h) = minus the sum over batch, then rows, of what each row adds.
  void store_sums(const TensorView<A, 1>& gradient, const double* rows) const {
    if (!gradient) return;
    for (Index h = 0; h < shape_.heads; ++h) {
      double sum = 0;
      for (Index b = 0; b < shape_.batch; ++b) {
        for (Index i = 0; i < shape_.seq_q; ++i) sum -= rows[(b * shape_.heads + h) * shape_.seq_q + i];
      }
      gradient(h) = static_cast<A>(sum);
    }
  }

  const AttentionShape& shape_;
  const AttentionGradients<T>& gradients_;
  const Execution& execution_;
  BackwardFunctions<A> functions_;
  TileRules<A> rules_;
  QueryPacker<T> packer_;
  Index workers_ = 1;
};

}  // namespace

template <class T>
void run_backward(const AttentionProblem<T>& problem, const AttentionShape& shape,
                  const TensorView<const T, 4>& grad_context, const AttentionSaved<T>& saved,
                  const AttentionGradients<T>& gradients, const Execution& execution, Isa isa) {
  BackwardCall<T>(problem, shape, grad_context, saved, gradients, execution, isa).run();
  if (gradients.bias) run_bias_gradient(problem, shape, grad_context, saved, gradients, execution, isa);
}

#define HEADWISE_RUN_BACKWARD(T)                                                                               \
  template void run_backward(const AttentionProblem<T>&, const AttentionShape&, const TensorView<const T, 4>&, \
                             const AttentionSaved<T>&, const AttentionGradients<T>&, const Execution&, Isa);
HEADWISE_RUN_BACKWARD(float)
HEADWISE_RUN_BACKWARD(double)
HEADWISE_RUN_BACKWARD(float16)
HEADWISE_RUN_BACKWARD(bfloat16)
#undef HEADWISE_RUN_BACKWARD

}  // namespace headwise
