// SPDX-License-Identifier: Apache-2.0
// Parts of an attention problem, as views: one batch entry, the heads of one kv head, some rows, the keys that exist.
#ifndef HEADWISE_TESTS_SUPPORT_PROBLEM_PARTS_H_
#define HEADWISE_TESTS_SUPPORT_PROBLEM_PARTS_H_

#include <memory>
#include <vector>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/positions.h"

namespace headwise::testing {

// Whatever alignment the whole had, a part states its offsets, so that its queries stand where they stood.
template <class T>
struct ProblemPart {
  AttentionProblem<T> problem;
  TensorView<const T, 4> grad_context;
  // Behind the spans of problem.visibility; shared by copies.
  std::shared_ptr<std::vector<Index>> offsets, lengths;

  ProblemPart(const AttentionProblem<T>& whole, const TensorView<const T, 4>& grad)
      : problem(whole),
        grad_context(grad),
        offsets(std::make_shared<std::vector<Index>>()),
        lengths(std::make_shared<std::vector<Index>>(whole.visibility.kv_lengths.begin(),
                                                     whole.visibility.kv_lengths.end())) {
    const AttentionShape shape = check_attention("test", whole);
    for (Index b = 0; b < shape.batch; ++b) offsets->push_back(query_offset_of(whole.visibility, shape, b));
    problem.visibility.alignment = Alignment::kOffset;
    point_to_own();
  }

  void point_to_own() {
    problem.visibility.query_offset = *offsets;
    if (problem.visibility.kv_lengths.data() != nullptr) problem.visibility.kv_lengths = *lengths;
  }

  // Cuts an axis of every tensor that has it, unless it is broadcast there.
  void cut_rules(int axis, Index begin, Index end) {
    if (problem.rule.bias && problem.rule.bias.size(axis) != 1) {
      problem.rule.bias = problem.rule.bias.slice(axis, begin, end);
    }
    if (problem.visibility.mask && problem.visibility.mask.size(axis) != 1) {
      problem.visibility.mask = problem.visibility.mask.slice(axis, begin, end);
    }
  }
  void cut_queries(int axis, Index begin, Index end) {
    problem.inputs.queries = problem.inputs.queries.slice(axis, begin, end);
    grad_context = grad_context.slice(axis, begin, end);
  }
  void cut_keys(int axis, Index begin, Index end) {
    problem.inputs.keys = problem.inputs.keys.slice(axis, begin, end);
    problem.inputs.values = problem.inputs.values.slice(axis, begin, end);
  }
};

// Batch entry b alone, with dropout drawn as within the batch.
template <class T>
ProblemPart<T> batch_entry(ProblemPart<T> part, Index b) {
  part.cut_queries(0, b, b + 1);
  part.cut_keys(0, b, b + 1);
  part.cut_rules(0, b, b + 1);
  part.problem.dropout.batch_offset += b;
  part.offsets = std::make_shared<std::vector<Index>>(1, (*part.offsets)[b]);
  if (!part.lengths->empty()) part.lengths = std::make_shared<std::vector<Index>>(1, (*part.lengths)[b]);
  part.point_to_own();
  return part;
}

// Heads [begin, end) of kv heads [kv_begin, kv_end), with dropout drawn as among all heads.
template <class T>
ProblemPart<T> some_heads(ProblemPart<T> part, Index begin, Index end, Index kv_begin, Index kv_end) {
  part.cut_queries(1, begin, end);
  part.cut_keys(1, kv_begin, kv_end);
  part.cut_rules(1, begin, end);
  ScoreRule<T>& rule = part.problem.rule;
  if (rule.alibi_slopes) rule.alibi_slopes = rule.alibi_slopes.slice(0, begin, end);
  if (rule.sinks) rule.sinks = rule.sinks.slice(0, begin, end);
  part.problem.dropout.head_offset += begin;
  return part;
}

template <class T>
ProblemPart<T> some_rows(ProblemPart<T> part, Index begin, Index end) {
  part.cut_queries(2, begin, end);
  part.cut_rules(2, begin, end);
  part.offsets = std::make_shared<std::vector<Index>>(*part.offsets);
  for (Index& offset : *part.offsets) offset += begin;
  part.point_to_own();
  return part;
}

// Keys [0, count), all of which exist.
template <class T>
ProblemPart<T> first_keys(ProblemPart<T> part, Index count) {
  part.cut_keys(2, 0, count);
  part.cut_rules(3, 0, count);
  part.problem.visibility.kv_lengths = {};
  return part;
}

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_PROBLEM_PARTS_H_
