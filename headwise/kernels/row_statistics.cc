// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/row_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headwise {

double canonical_log(double x) {
  if (!(x > 0)) return x == 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(x)) return x;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // [0.5, 1)
  if (mantissa < 0x1.6a09e667f3bcdp-1) {
    mantissa *= 2;
    --exponent;
  }
  // log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.172
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double series = 1.0 / 23;
  for (int odd = 21; odd >= 3; odd -= 2) series = std::fma(series, square, 1.0 / odd);
  const double tail = 2 * s * square * series;
  const double n = exponent;
  const double low = std::fma(n, 0x1.abc9e3b39803fp-56, tail);
  return std::fma(n, 0x1.62e42fefa39efp-1, 2 * s + low);
}

template <class A>
A row_logsumexp(A max, A sum) {
  if (sum == 0) return -std::numeric_limits<A>::infinity();
  return static_cast<A>(static_cast<double>(max) + canonical_log(static_cast<double>(sum)));
}

template <class A>
bool wants_row_statistics(const AttentionStatistics<A>& s) {
  return s.entropy || s.max_weight || s.top_keys || s.distance || s.self || s.previous || s.next || s.first;
}

namespace {

// The heaviest keys; among equal weights the lower key first; -1 once no weight is left.
template <class A>
void write_top_keys(std::span<const A> weights, TensorView<std::int64_t, 1> out) {
  A last = std::numeric_limits<A>::infinity();
  Index last_key = -1;
  for (Index k = 0; k < out.size(0); ++k) {
    Index best = -1;
    for (Index j = 0; j < static_cast<Index>(weights.size()); ++j) {
      const bool after_last = weights[j] < last || (weights[j] == last && j > last_key);
      if (after_last && weights[j] > 0 && (best < 0 || weights[j] > weights[best])) best = j;
    }
    out(k) = best;
    if (best < 0) continue;
    last = weights[best];
    last_key = best;
  }
}

template <class A>
double weight_on(std::span<const A> weights, Index key) {
  return key >= 0 && key < static_cast<Index>(weights.size()) ? static_cast<double>(weights[key]) : 0.0;
}

}  // namespace

template <class A>
void write_row_statistics(const AttentionStatistics<A>& out, std::span<const A> weights, Index position, Index b,
                          Index h, Index i, double* received) {
  const auto count = static_cast<Index>(weights.size());
  if (received != nullptr) {
    for (Index j = 0; j < count; ++j) received[j] += static_cast<double>(weights[j]);
  }
  if (!wants_row_statistics(out)) return;
  double entropy = 0, heaviest = 0, distance = 0;
  for (Index j = 0; j < count; ++j) {
    const auto weight = static_cast<double>(weights[j]);
    if (weight == 0) continue;
    if (out.entropy) entropy -= weight * canonical_log(weight);
    heaviest = weight > heaviest || std::isnan(weight) ? weight : heaviest;
    distance += weight * static_cast<double>(std::abs(position - j));
  }
  if (out.entropy) out.entropy(b, h, i) = static_cast<A>(entropy);
  if (out.max_weight) out.max_weight(b, h, i) = static_cast<A>(heaviest);
  if (out.distance) out.distance(b, h, i) = static_cast<A>(distance);
  if (out.self) out.self(b, h, i) = static_cast<A>(weight_on(weights, position));
  if (out.previous) out.previous(b, h, i) = static_cast<A>(weight_on(weights, position - 1));
  if (out.next) out.next(b, h, i) = static_cast<A>(weight_on(weights, position + 1));
  if (out.first) out.first(b, h, i) = static_cast<A>(weight_on(weights, 0));
  if (out.top_keys) write_top_keys(weights, out.top_keys.select(0, b).select(0, h).select(0, i));
}

#define HEADWISE_ROW_STATISTICS(A)                                                                                  \
  template A row_logsumexp(A, A);                                                                                   \
  template bool wants_row_statistics(const AttentionStatistics<A>&);                                                \
  template void write_row_statistics(const AttentionStatistics<A>&, std::span<const A>, Index, Index, Index, Index, \
                                     double*);
HEADWISE_ROW_STATISTICS(float)
HEADWISE_ROW_STATISTICS(double)
#undef HEADWISE_ROW_STATISTICS

}  // namespace headwise
