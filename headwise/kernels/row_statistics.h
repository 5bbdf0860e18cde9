// SPDX-License-Identifier: Apache-2.0
// What is said about one row of weights. Plain scalar code shared by the canonical program and the fast path, so that
// both say the same bits.
#ifndef HEADWISE_KERNELS_ROW_STATISTICS_H_
#define HEADWISE_KERNELS_ROW_STATISTICS_H_

#include <span>

#include "headwise/kernels/attention.h"

namespace headwise {

// log of a positive finite number in IEEE operations only, about 1 ulp; log(0) = -inf, NaN stays NaN.
double canonical_log(double x);

// max + log(sum), rounded once to A; -inf for a row that sees no key.
template <class A>
A row_logsumexp(A max, A sum);

// True when any statistic other than `received` is asked for.
template <class A>
bool wants_row_statistics(const AttentionStatistics<A>& statistics);

// Writes every statistic of one row. weights: (seq_kv,), before dropout, 0 where hidden.
// received: seq_kv running sums in double, or null.
template <class A>
void write_row_statistics(const AttentionStatistics<A>& out, std::span<const A> weights, Index position, Index batch,
                          Index head, Index row, double* received);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ROW_STATISTICS_H_
