// SPDX-License-Identifier: Apache-2.0
// Dropout has a different output each time, so it is not compared with one: the weights that were used are solved for,
// in rows that see no more keys than a head has columns, and looked at.
#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/lens/known_mistakes.h"

namespace headwise {
namespace {

constexpr double kSmallestWeight = 1e-3;  // below it a dropped weight cannot be told from a kept one
constexpr std::size_t kFewest = 6;

// The least-squares solution of a s = b; a: (rows, unknowns), rows >= unknowns. Empty where it is not determined.
std::vector<double> solve(const Tensor<double, 2>& a, const std::vector<double>& b) {
  const Index n = a.size(1);
  Tensor<double, 2> normal(Shape<2>{n, n + 1});
  double largest = 0;
  for (Index i = 0; i < n; ++i) {
    for (Index r = 0; r < a.size(0); ++r) {
      for (Index j = 0; j < n; ++j) normal(i, j) += a(r, i) * a(r, j);
      normal(i, n) += a(r, i) * b[static_cast<std::size_t>(r)];
    }
    largest = std::max(largest, normal(i, i));
  }
  for (Index i = 0; i < n; ++i) {
    Index best = i;
    for (Index r = i + 1; r < n; ++r) best = std::abs(normal(r, i)) > std::abs(normal(best, i)) ? r : best;
    if (std::abs(normal(best, i)) <= 1e-9 * largest) return {};
    for (Index j = 0; j <= n; ++j) std::swap(normal(i, j), normal(best, j));
    for (Index r = 0; r < n; ++r) {
      if (r == i) continue;
      const double share = normal(r, i) / normal(i, i);
      for (Index j = i; j <= n; ++j) normal(r, j) -= share * normal(i, j);
    }
  }
  std::vector<double> solution;
  for (Index i = 0; i < n; ++i) solution.push_back(normal(i, n) / normal(i, i));
  return solution;
}

// The merged context behind one row of the output. Empty where the output does not determine it.
std::vector<double> merged_of(const PlainLayer& layer, TensorView<const double, 1> got) {
  std::vector<double> row;
  for (Index i = 0; i < got.size(0); ++i) row.push_back(got(i) - (layer.out && layer.out_bias ? layer.out_bias(i) : 0));
  if (!layer.out) return row;
  if (layer.out.size(0) < layer.out.size(1)) return {};
  return solve(layer.out, row);
}

struct Found {
  Index row = 0, head = 0, key = 0;
  double multiple = 0;  // of the right weight
};

// The multiples of one head in one row.
void find_multiples(const PlainLayer& layer, const PlainRun& right, Found place, const std::vector<double>& merged,
                    std::vector<Found>& found) {
  const AttentionSizes& sizes = layer.sizes;
  const Index kv_head = place.head / (sizes.heads / sizes.kv_heads);
  std::vector<Index> keys;
  for (Index j = 0; j < right.weights.size(2); ++j) {
    if (right.weights(place.head, place.row, j) > 0) keys.push_back(j);
  }
  const Index n = static_cast<Index>(keys.size());
  if (n == 0 || n > sizes.head_dim) return;
  Tensor<double, 2> values(Shape<2>{sizes.head_dim, n});
  std::vector<double> context;
  for (Index d = 0; d < sizes.head_dim; ++d) {
    context.push_back(merged[static_cast<std::size_t>(place.head * sizes.head_dim + d)]);
    for (Index k = 0; k < n; ++k)
      values(d, k) = right.values(keys[static_cast<std::size_t>(k)], kv_head * sizes.head_dim + d);
  }
  const std::vector<double> used = solve(values, context);
  for (std::size_t k = 0; k < used.size(); ++k) {
    const double weight = right.weights(place.head, place.row, keys[k]);
    if (weight >= kSmallestWeight) found.push_back({place.row, place.head, keys[k], used[k] / weight});
  }
}

}  // namespace

DroppedWeights find_dropped_weights(const PlainLayer& layer, const PlainRun& right, TensorView<const double, 2> got) {
  std::vector<Found> found;
  for (Index row = 0; row < got.size(0); ++row) {
    const std::vector<double> merged = merged_of(layer, got.select(0, row));
    if (merged.empty()) break;
    for (Index head = 0; head < layer.sizes.heads; ++head)
      find_multiples(layer, right, {row, head, 0, 0}, merged, found);
  }
  DroppedWeights result;
  std::vector<double> kept;
  for (const Found& one : found) {
    if (one.multiple > 0.5) kept.push_back(one.multiple);
  }
  result.told = found.size() >= kFewest && !kept.empty();
  if (!result.told) return result;
  std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(kept.size() / 2), kept.end());
  result.factor = kept[kept.size() / 2];
  std::size_t close = 0, dropped = 0;
  for (const Found& one : found) {
    const double gap = std::min(std::abs(one.multiple), std::abs(one.multiple - result.factor));
    close += gap < 0.03 * result.factor ? 1 : 0;
    dropped += std::abs(one.multiple) < 0.03 * result.factor ? 1 : 0;
    result.distance += gap * gap;
  }
  result.distance = std::sqrt(result.distance / static_cast<double>(found.size()));
  result.missing = dropped > 0;
  result.fits =
      static_cast<double>(close) >= 0.95 * static_cast<double>(found.size()) && result.missing && result.factor > 1.02;
  return result;
}

}  // namespace headwise
