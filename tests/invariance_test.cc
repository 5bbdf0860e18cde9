// SPDX-License-Identifier: Apache-2.0
// What a query's results may not depend on: the batch around it, the padding behind it, the chunk it comes in, the
// strides of its tensors, what else is asked for. Random problems with every option, inf and NaN included.
#include <gtest/gtest.h>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/widened.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/case_count.h"
#include "tests/support/problem_parts.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::batch_entry;
using testing::case_count;
using testing::Dice;
using testing::expect_same_bits;
using testing::expect_same_results;
using testing::first_keys;
using testing::ProblemPart;
using testing::RandomProblem;
using testing::some_heads;
using testing::some_rows;

template <class T>
ProblemPart<T> whole(const RandomProblem<T>& p) {
  return {p.problem, p.grad_context.view};
}

template <class T>
AttentionResults<T> results_of(const ProblemPart<T>& part, bool taps = false) {
  return {part.problem, part.grad_context, taps};
}

// Compares a part's rows with the rows [begin, ..) of `axis` of the whole.
template <class T>
Index expect_same_rows(const AttentionResults<T>& all, const AttentionResults<T>& part, int axis, Index begin,
                       const std::string& where) {
  const Index end = begin + part.context.size(axis);
  const auto same = [&](const auto& expected, const auto& got, const char* what) {
    return expect_same_bits(expected.cview().slice(axis, begin, end), got.cview(), what, where);
  };
  same(all.logsumexp, part.logsumexp, "logsumexp");
  same(all.row_max, part.row_max, "row_max");
  same(all.row_sum, part.row_sum, "row_sum");
  return same(all.context, part.context, "context") + same(all.grad_queries, part.grad_queries, "grad_queries");
}

template <class T>
Index expect_same_keys(const AttentionResults<T>& all, const AttentionResults<T>& part, int axis, Index begin,
                       const std::string& where) {
  const Index end = begin + part.grad_keys.size(axis);
  return expect_same_bits(all.grad_keys.cview().slice(axis, begin, end), part.grad_keys.cview(), "grad_keys", where) +
         expect_same_bits(all.grad_values.cview().slice(axis, begin, end), part.grad_values.cview(), "grad_values",
                          where);
}

// Runs `compare(problem)`, which gives how many elements it compared, until `usual` random problems had any.
template <class T, class Compare>
void on_random_problems(std::uint64_t first_seed, Index usual, const Compare& compare) {
  testing::ProblemLimits limits;
  limits.most_rows = 300;
  const Index wanted = case_count(usual);
  Index done = 0;
  const std::uint64_t last_seed = first_seed + static_cast<std::uint64_t>(20 * (wanted + 5));
  for (std::uint64_t seed = first_seed; done < wanted && seed < last_seed && !::testing::Test::HasFailure(); ++seed) {
    const RandomProblem<T> p(seed, limits);
    if (compare(p) > 0) ++done;
  }
  EXPECT_EQ(done, wanted);
}

TEST(Invariance, TheSameCallGivesTheSameBitsAgain) {
  on_random_problems<float>(100001, 30, [](const RandomProblem<float>& p) {
    const AttentionResults<float> first = results_of(whole(p), true);
    for (int run = 0; run < 3; ++run) expect_same_results(first, results_of(whole(p), true), p.description);
    return first.context.elements();
  });
}

template <class T>
Index compare_batch_entries(const RandomProblem<T>& p) {
  const AttentionResults<T> all = results_of(whole(p));
  Index compared = 0;
  for (Index b = 0; b < p.shape.batch; ++b) {
    const AttentionResults<T> alone = results_of(batch_entry(whole(p), b));
    const std::string where = p.description + ", entry " + std::to_string(b);
    compared += expect_same_rows(all, alone, 0, b, where) + expect_same_keys(all, alone, 0, b, where);
  }
  return compared;
}

TEST(Invariance, ABatchEntryAloneHasTheBitsItHasWithinTheBatch) {
  on_random_problems<float>(110001, 60, compare_batch_entries<float>);
  on_random_problems<bfloat16>(111001, 20, compare_batch_entries<bfloat16>);
}

// Keys beyond kv_lengths exist in memory, as NaN: nothing reads them, and their gradients are 0.
template <class T>
Index compare_padded(const RandomProblem<T>& p) {
  if (p.lengths.empty()) return 0;
  const Index keys = p.shape.seq_kv;
  for (Index b = 0; b < p.shape.batch; ++b) {
    for (const auto& view : {p.keys.view, p.values.view}) {
      testing::fill(view.select(0, b).slice(1, p.lengths[b], keys), [] { return testing::poison<T>(); });
    }
  }
  const AttentionResults<T> padded = results_of(whole(p));
  Index compared = 0;
  for (Index b = 0; b < p.shape.batch; ++b) {
    const ProblemPart<T> alone = batch_entry(whole(p), b);
    const AttentionResults<T> cut = results_of(first_keys(alone, p.lengths[b]));
    const std::string where = p.description + ", entry " + std::to_string(b);
    compared += expect_same_rows(padded, cut, 0, b, where);
    for (const auto* gradient : {&padded.grad_keys, &padded.grad_values}) {
      const TensorView<const T, 4> own = gradient->cview().slice(0, b, b + 1);
      const Tensor<T, 4> zero(own.slice(2, p.lengths[b], keys).shape());
      expect_same_bits(zero.cview(), own.slice(2, p.lengths[b], keys), "gradient of padding", where);
      const Tensor<T, 4>& expected = gradient == &padded.grad_keys ? cut.grad_keys : cut.grad_values;
      expect_same_bits(expected.cview(), own.slice(2, 0, p.lengths[b]), "gradient of keys or values", where);
    }
  }
  return compared;
}

TEST(Invariance, PaddedKeysGiveTheBitsOfKeysCutToTheirLength) {
  on_random_problems<float>(120001, 50, compare_padded<float>);
  on_random_problems<float16>(121001, 15, compare_padded<float16>);
}

template <class T>
Index compare_chunks(const RandomProblem<T>& p) {
  Dice dice(static_cast<std::uint64_t>(p.shape.seq_q * 1000 + p.shape.seq_kv));
  const AttentionResults<T> all = results_of(whole(p));
  const Index longest = dice.of<Index>({1, 5, 12, 96, 128, 200});
  Index compared = 0;
  for (Index begin = 0; begin < p.shape.seq_q;) {
    const Index end = std::min(p.shape.seq_q, begin + 1 + dice.pick(longest));
    const AttentionResults<T> chunk = results_of(some_rows(whole(p), begin, end));
    compared += expect_same_rows(all, chunk, 2, begin, p.description + ", rows from " + std::to_string(begin));
    begin = end;
  }
  return compared;
}

TEST(Invariance, QueriesInChunksOfAnySizeHaveTheBitsOfAllAtOnce) {
  on_random_problems<float>(130001, 40, compare_chunks<float>);
  on_random_problems<double>(131001, 15, compare_chunks<double>);
  on_random_problems<bfloat16>(132001, 15, compare_chunks<bfloat16>);
}

template <class T>
Index compare_kv_heads(const RandomProblem<T>& p) {
  const AttentionResults<T> all = results_of(whole(p));
  const Index group = p.shape.heads / p.shape.kv_heads;
  Index compared = 0;
  for (Index g = 0; g < p.shape.kv_heads; ++g) {
    const AttentionResults<T> alone = results_of(some_heads(whole(p), g * group, (g + 1) * group, g, g + 1));
    const std::string where = p.description + ", kv head " + std::to_string(g);
    compared += expect_same_rows(all, alone, 1, g * group, where) + expect_same_keys(all, alone, 1, g, where);
  }
  return compared;
}

TEST(Invariance, HeadsAloneWithTheirHeadOffsetHaveTheBitsOfAllHeads) {
  on_random_problems<float>(140001, 60, compare_kv_heads<float>);
  on_random_problems<float16>(141001, 20, compare_kv_heads<float16>);
}

TEST(Invariance, WeightsStatisticsAndLogsumexpChangeNoBit) {
  on_random_problems<float>(150001, 60, [](const RandomProblem<float>& p) {
    const AttentionResults<float> expected = results_of(whole(p), true);
    expect_same_results(expected, results_of(whole(p), false), p.description);
    Tensor<float, 4> context(expected.context.shape());
    AttentionOutputs<float> bare;
    bare.context = context.view();
    attention_forward(p.problem, bare);
    return expect_same_bits(expected.context, context, "context by itself", p.description);
  });
}

template <class T>
Index compare_single_gradients(const RandomProblem<T>& p) {
  const AttentionResults<T> together = results_of(whole(p));
  const auto alone = [&](const char* what, auto member, const auto& expected) {
    auto got = expected;
    got.fill({});
    AttentionGradients<T> gradients;
    gradients.*member = got.view();
    attention_backward<T>(p.problem, p.grad_context.view, together.saved(), gradients);
    return expect_same_bits(expected, got, what, p.description + ", alone");
  };
  using Gradients = AttentionGradients<T>;
  if (together.grad_bias) alone("grad_bias", &Gradients::bias, together.grad_bias);
  if (together.grad_slopes) alone("grad_alibi_slopes", &Gradients::alibi_slopes, together.grad_slopes);
  if (together.grad_sinks) alone("grad_sinks", &Gradients::sinks, together.grad_sinks);
  return alone("grad_queries", &Gradients::queries, together.grad_queries) +
         alone("grad_keys", &Gradients::keys, together.grad_keys) +
         alone("grad_values", &Gradients::values, together.grad_values);
}

TEST(Invariance, AGradientAskedForAloneHasTheBitsItHasAmongAll) {
  on_random_problems<float>(160001, 40, compare_single_gradients<float>);
  on_random_problems<bfloat16>(161001, 20, compare_single_gradients<bfloat16>);
}

template <class T>
Index compare_strides(const RandomProblem<T>& p) {
  WideProblem<T, T> dense(p.problem);
  const Tensor<bool, 4> mask(TensorView<const bool, 4>(p.mask.view));
  if (p.problem.visibility.mask) dense.problem.visibility.mask = mask.cview();
  const Tensor<T, 4> grad_context(TensorView<const T, 4>(p.grad_context.view));
  const AttentionResults<T> expected(dense.problem, grad_context.cview(), true);
  expect_same_results(expected, results_of(whole(p), true), p.description + ", strided inputs");

  // Outputs as slices of (batch, seq, heads, width), between other numbers.
  const auto room = [](const Shape<4>& s) { return Shape<4>{s[0], s[2], s[1], s[3] + 3}; };
  const auto inner = [](auto& tensor) { return tensor.view().transpose(1, 2).slice(3, 1, tensor.size(3) - 2); };
  Tensor<T, 4> context(room(expected.context.shape())), queries(room(expected.grad_queries.shape())),
      keys(room(expected.grad_keys.shape())), values(room(expected.grad_values.shape()));
  Tensor<Accumulated<T>, 4> unrounded(context.shape());
  AttentionOutputs<T> outputs;
  outputs.context = inner(context);
  outputs.unrounded_context = inner(unrounded);
  attention_forward(p.problem, outputs);
  AttentionGradients<T> gradients;
  gradients.queries = inner(queries);
  gradients.keys = inner(keys);
  gradients.values = inner(values);
  attention_backward<T>(p.problem, p.grad_context.view,
                        {outputs.unrounded_context, expected.row_max.cview(), expected.row_sum.cview()}, gradients);
  const std::string where = p.description + ", strided outputs";
  const auto same = [&]<class E>(const Tensor<E, 4>& tensor, const TensorView<E, 4>& got, const char* what) {
    return expect_same_bits(tensor.cview(), TensorView<const E, 4>(got), what, where);
  };
  const auto untouched = [&]<class E>(const Tensor<E, 4>& tensor) {
    const Tensor<E, 4> before({tensor.size(0), tensor.size(1), tensor.size(2), 1});
    expect_same_bits(before.cview(), tensor.cview().slice(3, 0, 1), "memory beside an output", where);
  };
  for (const Tensor<T, 4>* tensor : {&context, &queries, &keys, &values}) untouched(*tensor);
  untouched(unrounded);
  same(expected.unrounded_context, outputs.unrounded_context, "unrounded_context");
  return same(expected.context, outputs.context, "context") +
         same(expected.grad_queries, gradients.queries, "grad_queries") +
         same(expected.grad_keys, gradients.keys, "grad_keys") +
         same(expected.grad_values, gradients.values, "grad_values");
}

TEST(Invariance, AnyStridesOfInputsAndOutputsGiveTheBitsOfDenseOnes) {
  on_random_problems<float>(170001, 60, compare_strides<float>);
  on_random_problems<double>(171001, 20, compare_strides<double>);
}

}  // namespace
}  // namespace headwise
