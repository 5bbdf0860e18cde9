// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "headwise/kernels/attention.h"
#include "headwise/tensor/tensor.h"

namespace headwise {
namespace {

TEST(AttentionBackward, OverwritesGradientsOfKeysThatNoQueryHeadReadsWithZero) {
  const Tensor<float, 4> q({2, 0, 3, 5}), k({2, 2, 7, 5}), v({2, 2, 7, 4}), context({2, 0, 3, 4});
  const Tensor<float, 3> rows({2, 0, 3});
  AttentionProblem<float> problem;
  problem.inputs = {q.view(), k.view(), v.view()};
  Tensor<float, 4> grad_k(k.shape()), grad_v(v.shape());
  grad_k.fill(9);
  grad_v.fill(9);
  AttentionGradients<float> gradients;
  gradients.keys = grad_k.view();
  gradients.values = grad_v.view();

  attention_backward<float>(problem, context.view(), {context.view(), rows.view(), rows.view()}, gradients);

  for (Index n = 0; n < grad_k.elements(); ++n) EXPECT_EQ(grad_k.data()[n], 0) << n;
  for (Index n = 0; n < grad_v.elements(); ++n) EXPECT_EQ(grad_v.data()[n], 0) << n;
}

}  // namespace
}  // namespace headwise
