// SPDX-License-Identifier: Apache-2.0
// One line for each head: how sharply it looks, and where to.
#ifndef HEADWISE_LENS_HEAD_SUMMARY_H_
#define HEADWISE_LENS_HEAD_SUMMARY_H_

#include <optional>
#include <vector>

#include "headwise/lens/attention_trace.h"

namespace headwise {

// A weight by the places of its query and key token.
struct StrongestPair {
  Index sentence = 0, query = 0, key = 0;
  double weight = 0;
};

// Means over every token of every sentence. A share is the part of a token's attention that goes to: itself, the token
// before it, the one after it, the first one, the separators. A token without a neighbour on that side counts as 0.
struct HeadSummary {
  Index layer = 0, head = 0;
  double entropy = 0;  // nats
  double self = 0, previous = 0, next = 0, first = 0;
  std::optional<double> separator;         // nothing where no sentence has one
  std::optional<StrongestPair> strongest;  // the first of equals; nothing where every weight is NaN
};

// By layer, then head. Throws as recompute_statistics does.
std::vector<HeadSummary> summarize_heads(const AttentionTrace& trace, std::optional<Index> only_layer = std::nullopt,
                                         const Execution& execution = {});

}  // namespace headwise

#endif  // HEADWISE_LENS_HEAD_SUMMARY_H_
