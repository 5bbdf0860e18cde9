// SPDX-License-Identifier: Apache-2.0
// Weights read in the wrong order: transposed, fused otherwise, shared otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/diagnosed_layer.h"

namespace headwise {
namespace {

using namespace headwise::testing;  // NOLINT(google-build-using-namespace)

using DiagnoseWeights = DiagnosedLayer;

// The layer with the matrices of these names transposed.
Layer transposed(Layer layer, const std::vector<std::string>& names) {
  for (const Parameter<float>& parameter : layer.parameters()) {
    const bool wanted = std::find(names.begin(), names.end(), parameter.name) != names.end();
    if (!wanted) continue;
    for (Index r = 0; r < 12; ++r) {
      for (Index c = 0; c < r; ++c) std::swap(parameter.value[r * 12 + c], parameter.value[c * 12 + r]);
    }
  }
  return layer;
}

TEST_P(DiagnoseWeights, transposed_weights_are_named) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"query_transposed", {"W_query.weight"}},
      {"key_transposed", {"W_key.weight"}},
      {"value_transposed", {"W_value.weight"}},
      {"qkv_transposed", {"W_query.weight", "W_key.weight", "W_value.weight"}},
      {"out_transposed", {"out_proj.weight"}},
      {"all_transposed", {"W_query.weight", "W_key.weight", "W_value.weight", "out_proj.weight"}}};
  for (const auto& [name, matrices] : cases) {
    expect_named(layer_, transposed(layer_, matrices).forward(x_.cview()), name);
  }
}

// The layer whose stacked rows are those of `source`.
template <class Source>
Layer reordered(const Layer& layer, const Source& source) {
  Layer result = layer, from = layer;
  const auto biases = from.qkv().bias_values(from.qkv().all_rows());
  for (Index r = 0; r < 36; ++r) {
    for (Index c = 0; c < 12; ++c) result.qkv().weight()(r, c) = from.qkv().weight()(source(r), c);
    result.qkv().bias_values({r, 1})[0] = biases[static_cast<std::size_t>(source(r))];
  }
  return result;
}

TEST_P(DiagnoseWeights, wrong_orders_of_the_fused_rows_are_named) {
  // Of three heads the two orders would be one and the same.
  const Layer layer = layer_of(options_of({12, 4, 4}, seed()));
  std::vector<Index> per_head;  // rows of [Q | K | V] in the order q, k, v of each head
  for (Index h = 0; h < 4; ++h) {
    for (Index part = 0; part < 3; ++part) {
      for (Index d = 0; d < 3; ++d) per_head.push_back(part * 12 + h * 3 + d);
    }
  }
  const auto index = [&](Index r) { return per_head[static_cast<std::size_t>(r)]; };
  expect_named(layer, reordered(layer, index).forward(x_.cview()), "qkv_heads_read_as_blocks");
  const auto inverse = [&](Index r) { return std::find(per_head.begin(), per_head.end(), r) - per_head.begin(); };
  expect_named(layer, reordered(layer, inverse).forward(x_.cview()), "qkv_blocks_read_per_head");
  const auto swap_qk = [](Index r) { return r < 12 ? r + 12 : r < 24 ? r - 12 : r; };
  expect_named(layer, reordered(layer, swap_qk).forward(x_.cview()), "queries_and_keys_swapped");
  const auto swap_kv = [](Index r) { return r < 12 ? r : r < 24 ? r + 12 : r - 12; };
  expect_named(layer, reordered(layer, swap_kv).forward(x_.cview()), "keys_and_values_swapped");
}

TEST_P(DiagnoseWeights, a_wrong_order_of_shared_heads_is_named) {
  const Tensor<float, 3> x = input(seed());
  const Layer grouped = layer_of(options_of({12, 6, 2}, seed()));
  Layer full = layer_of(options_of({12, 6, 6}, seed()));
  // Keys and values repeated as [K1, K2, K1, K2, ...].
  Layer source = grouped;
  const auto from = source.qkv().weight();
  for (Index r = 0; r < 12; ++r) {
    for (Index part = 0; part < 3; ++part) {
      const Index row = part == 0 ? r : 12 + (part - 1) * 4 + r % 4;
      for (Index c = 0; c < 12; ++c) full.qkv().weight()(part * 12 + r, c) = from(row, c);
      full.qkv().bias_values({part * 12 + r, 1})[0] = source.qkv().bias_values({row, 1})[0];
    }
  }
  for (Index r = 0; r < 12; ++r) {
    for (Index c = 0; c < 12; ++c) full.out_proj().weight()(r, c) = source.out_proj().weight()(r, c);
    full.out_proj().bias_values({r, 1})[0] = source.out_proj().bias_values({r, 1})[0];
  }
  expect_named(grouped, full.forward(x_.cview()), "kv_head_order");
}

INSTANTIATE_TEST_SUITE_P(ThreeLayers, DiagnoseWeights, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace headwise
