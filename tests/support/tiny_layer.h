// SPDX-License-Identifier: Apache-2.0
// A small attention layer with numbers from a fixed seed, and the files for a run of it.
#ifndef HEADWISE_TESTS_SUPPORT_TINY_LAYER_H_
#define HEADWISE_TESTS_SUPPORT_TINY_LAYER_H_

#include <string>
#include <vector>

#include "headwise/checkpoints/layer_file.h"
#include "headwise/runtime/random.h"
#include "headwise/tensor/named_tensor.h"
#include "headwise/tensor/tensor.h"
#include "tests/support/temporary_folder.h"

namespace headwise {

// d_in 6, d_out 8, 2 heads, causal.
template <class T = float>
MultiHeadAttention<T> tiny_layer() {
  return MultiHeadAttention<T>(6, 8, {.dropout = 0.1, .num_heads = 2, .seed = 5});
}

template <class T = float>
std::string write_tiny_layer(const TemporaryFolder& folder, const std::string& name = "layer.safetensors") {
  AnyLayer<T> layer = tiny_layer<T>();
  save_layer(folder.file(name), layer);
  return folder.file(name);
}

// (batch, seq, d_in).
template <class T = float>
Tensor<T, 3> tiny_input(Index batch, Index seq, std::uint64_t seed = 3) {
  Tensor<T, 3> x({batch, seq, 6});
  TorchGenerator generator(seed);
  generator.fill_normal({x.data(), static_cast<std::size_t>(x.elements())}, 0, 1);
  return x;
}

template <class T, int Rank>
NamedTensor as_named(const std::string& name, const Tensor<T, Rank>& tensor) {
  return {name,
          kDTypeOf<T>,
          {tensor.shape().begin(), tensor.shape().end()},
          reinterpret_cast<const std::byte*>(tensor.data())};
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_TINY_LAYER_H_
