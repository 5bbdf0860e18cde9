// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/head_summary.h"

namespace headwise {
namespace {

// Memory for the statistics of one layer and sentence.
struct StatisticsBlock {
  StatisticsBlock(Index heads, Index seq)
      : rows({1, heads, seq}),
        entropy(rows),
        max_weight(rows),
        self(rows),
        previous(rows),
        next(rows),
        first(rows),
        received(rows),
        top_keys({1, heads, seq, 1}) {}

  AttentionStatistics<float> views() {
    AttentionStatistics<float> result;
    result.entropy = entropy.view();
    result.max_weight = max_weight.view();
    result.top_keys = top_keys.view();
    result.self = self.view();
    result.previous = previous.view();
    result.next = next.view();
    result.first = first.view();
    result.received = received.view();
    return result;
  }

  Shape<3> rows;
  Tensor<float, 3> entropy, max_weight, self, previous, next, first, received;
  Tensor<std::int64_t, 4> top_keys;
};

double sum(const Tensor<float, 3>& values, Index head) {
  double total = 0;
  for (Index row = 0; row < values.size(2); ++row) total += values(0, head, row);
  return total;
}

// Adds one sentence's rows to a head's sums.
void add_sentence(const TracedSentence& sentence, Index number, const StatisticsBlock& block, HeadSummary& sums) {
  sums.entropy += sum(block.entropy, sums.head);
  sums.self += sum(block.self, sums.head);
  sums.previous += sum(block.previous, sums.head);
  sums.next += sum(block.next, sums.head);
  sums.first += sum(block.first, sums.head);
  for (Index key = 0; key < sentence.seq(); ++key) {
    if (is_separator(sentence.tokens[key])) {
      sums.separator = sums.separator.value_or(0) + static_cast<double>(block.received(0, sums.head, key));
    }
  }
  for (Index row = 0; row < sentence.seq(); ++row) {
    const double weight = block.max_weight(0, sums.head, row);
    const Index key = block.top_keys(0, sums.head, row, 0);
    if (key < 0 || !(weight > (sums.strongest ? sums.strongest->weight : 0))) continue;
    sums.strongest = {number, row, key, weight};
  }
}

void divide(HeadSummary& sums, double rows) {
  for (double* total : {&sums.entropy, &sums.self, &sums.previous, &sums.next, &sums.first}) *total /= rows;
  if (sums.separator) *sums.separator /= rows;
}

}  // namespace

std::vector<HeadSummary> summarize_heads(const AttentionTrace& trace, std::optional<Index> only_layer,
                                         const Execution& execution) {
  const Index begin = only_layer.value_or(0), end = only_layer ? *only_layer + 1 : trace.layers;
  std::vector<HeadSummary> heads;
  Index rows = 0;
  for (const TracedSentence& sentence : trace.sentences) rows += sentence.seq();
  for (Index layer = begin; layer < end; ++layer) {
    const std::size_t first = heads.size();
    for (Index head = 0; head < trace.heads; ++head) {
      heads.emplace_back();
      heads.back().layer = layer;
      heads.back().head = head;
    }
    for (std::size_t i = 0; i < trace.sentences.size(); ++i) {
      StatisticsBlock block(trace.heads, trace.sentences[i].seq());
      const Index number = static_cast<Index>(i);
      recompute_statistics(trace, number, layer, block.views(), execution);
      for (Index head = 0; head < trace.heads; ++head) {
        add_sentence(trace.sentences[i], number, block, heads[first + head]);
      }
    }
  }
  for (HeadSummary& head : heads) divide(head, static_cast<double>(rows));
  return heads;
}

}  // namespace headwise
