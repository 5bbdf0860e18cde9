// SPDX-License-Identifier: Apache-2.0
// The C++ example of the README, compiled and run by the tests.
#include <cstdio>

#include "headwise/layers/multi_head_attention.h"

int main() {
  using headwise::MultiHeadAttention, headwise::Tensor;
  MultiHeadAttention<float> layer(/*d_in=*/3, /*d_out=*/2, {.num_heads = 2, .seed = 123});
  Tensor<float, 3> x({1, 6, 3});  // (batch, seq, d_in)
  x.fill(0.5F);

  headwise::Activations<float> saved;  // what backward needs, held by the caller
  const Tensor<float, 3> out = layer.forward(x.view(), {}, {}, &saved);
  Tensor<float, 3> grad_x(x.shape());
  layer.backward(saved, out.view(), grad_x.view());
  std::printf("out (%ld, %ld, %ld)\n", long(out.size(0)), long(out.size(1)), long(out.size(2)));
}
