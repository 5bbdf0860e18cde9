// SPDX-License-Identifier: Apache-2.0
// Layers and inputs on which mistakes show, for tests of the diagnosis.
#ifndef HEADWISE_TESTS_SUPPORT_DIAGNOSED_LAYER_H_
#define HEADWISE_TESTS_SUPPORT_DIAGNOSED_LAYER_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/lens/diagnose.h"
#include "headwise/runtime/random.h"

namespace headwise::testing {

constexpr Index kSeq = 7, kBatch = 2;

using Layer = MultiHeadAttention<float>;

struct Sizes {
  Index width = 12, heads = 3, kv_heads = 3;
};

inline MultiHeadAttentionOptions options_of(const Sizes& sizes, std::uint64_t seed) {
  MultiHeadAttentionOptions options;
  options.num_heads = sizes.heads;
  options.num_kv_heads = sizes.kv_heads;
  options.qkv_bias = true;
  options.seed = seed;
  return options;
}

// Layers with scores of order 1, where mistakes show.
inline Layer layer_of(const MultiHeadAttentionOptions& options, Index width = 12) {
  Layer layer(width, width, options);
  for (const Parameter<float>& parameter : layer.parameters()) {
    for (float& value : parameter.values()) value *= 2;
  }
  return layer;
}

inline Tensor<float, 3> input(std::uint64_t seed, Index width = 12) {
  Tensor<float, 3> x({kBatch, kSeq, width});
  TorchGenerator generator(seed);
  generator.fill_normal({x.data(), static_cast<std::size_t>(x.elements())}, 0, 1);
  return x;
}

inline Tensor<double, 3> widened(const Tensor<float, 3>& out) {
  Tensor<double, 3> wide(out.shape());
  copy_elements(out.cview(), wide.view());
  return wide;
}

inline Diagnosis examine(const Layer& layer, const Tensor<float, 3>& x, const Tensor<float, 3>& got) {
  return diagnose<float>(layer, x.cview(), widened(got).cview());
}

class DiagnosedLayer : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::uint64_t seed() const { return GetParam(); }
  Layer layer_ = layer_of(options_of({}, GetParam()));
  Tensor<float, 3> x_ = input(GetParam() + 100);

  void expect_named(const Layer& layer, const Tensor<float, 3>& got, const std::string& name) const {
    const Diagnosis found = examine(layer, x_, got);
    EXPECT_EQ(found.verdict, Verdict::kMistake) << name << ", distance to right " << found.right;
    EXPECT_THAT(found.names, ::testing::ElementsAre(name));
  }
};

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_DIAGNOSED_LAYER_H_
