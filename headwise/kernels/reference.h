// SPDX-License-Identifier: Apache-2.0
// The specification: attention and its gradients as plain loops in double. It says what is right; `canonical` says
// which bits. Nothing here is fast, and nothing here is tiled.
#ifndef HEADWISE_KERNELS_REFERENCE_H_
#define HEADWISE_KERNELS_REFERENCE_H_

#include <vector>

#include "headwise/kernels/attention.h"

namespace headwise::reference {

// As attention_forward, on a checked problem. Every output that is given is overwritten.
void attention_forward(const AttentionProblem<double>& problem, const AttentionShape& shape,
                       const AttentionOutputs<double>& outputs);

// As attention_backward, on a checked problem. Recomputes the weights itself.
void attention_backward(const AttentionProblem<double>& problem, const AttentionShape& shape,
                        TensorView<const double, 4> grad_context, const AttentionGradients<double>& gradients);

// One row of scores and weights, of query row `row`: what both passes above are made of.
struct Row {
  std::vector<Index> keys;      // the visible keys, ascending; the vectors below run beside it
  std::vector<double> capped;   // after scale and softcap, before the bias
  std::vector<double> scores;   // after bias and ALiBi
  std::vector<double> weights;  // before dropout
  std::vector<double> kept;     // 0 for a dropped weight, else what it is multiplied by
  double row_max = 0, row_sum = 0, sink_weight = 0;
  Index position = 0;
};
Row compute_row(const AttentionProblem<double>& problem, const AttentionShape& shape, Index batch, Index head,
                Index row);

}  // namespace headwise::reference

#endif  // HEADWISE_KERNELS_REFERENCE_H_
