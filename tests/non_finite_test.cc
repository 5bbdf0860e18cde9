// SPDX-License-Identifier: Apache-2.0
// A NaN reaches exactly what sees it, forward and backward, at every edge of a tile and under every rule that hides
// keys; everything else keeps the bits it has without the NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "headwise/kernels/attention.h"
#include "headwise/runtime/isa.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/case_count.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::Dice;
using testing::expect_same_results;
using testing::same_bits;

constexpr Index kHeads = 2, kRows = 134, kKeys = 300, kWidth = 6, kValueWidth = 20, kOffset = 160;
constexpr Index kEdgeRows[] = {0, 11, 12, 95, 96, 127, 128, 133};
constexpr Index kEdgeKeys[] = {0, 15, 16, 31, 32, 255, 256, 299};

enum class Rule { kNone, kCausal, kWindow, kLength, kMask, kBias };
constexpr Rule kRules[] = {Rule::kNone, Rule::kCausal, Rule::kWindow, Rule::kLength, Rule::kMask, Rule::kBias};
constexpr const char* kRuleNames[] = {"no rule", "causal", "window", "kv_lengths", "mask", "bias of -inf"};

// Two heads that share one kv head. Row 50 sees no key under a mask or a bias.
template <class T>
struct Case {
  using A = Accumulated<T>;
  Rule rule;
  Tensor<T, 4> queries{{1, kHeads, kRows, kWidth}}, keys{{1, 1, kKeys, kWidth}}, values{{1, 1, kKeys, kValueWidth}},
      grad_context{{1, kHeads, kRows, kValueWidth}}, bias{{1, 1, kRows, kKeys}};
  Tensor<bool, 4> mask{{1, 1, kRows, kKeys}};
  Index offset[1] = {kOffset}, length[1] = {256};
  A sinks[kHeads] = {A(0.5), A(-0.5)};
  AttentionProblem<T> problem;

  Case(Rule which, bool with_sinks) : rule(which) {
    Dice dice(17);
    for (auto* tensor : {&queries, &keys, &values, &grad_context}) {
      testing::fill(tensor->view(), [&] { return narrow<T>(static_cast<A>(dice.normal())); });
    }
    for (Index i = 0; i < kRows; ++i) {
      for (Index j = 0; j < kKeys; ++j) {
        mask(0, 0, i, j) = sees(i, j);
        bias(0, 0, i, j) = narrow<T>(sees(i, j) ? A(0.25) : -std::numeric_limits<A>::infinity());
      }
    }
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    if (with_sinks) problem.rule.sinks = {sinks, {kHeads}};
    problem.visibility.alignment = Alignment::kOffset;
    problem.visibility.query_offset = offset;
    problem.visibility.causal = rule == Rule::kCausal;
    if (rule == Rule::kWindow) problem.visibility.window_left = 40;
    if (rule == Rule::kWindow) problem.visibility.window_right = 5;
    if (rule == Rule::kLength) problem.visibility.kv_lengths = length;
    if (rule == Rule::kMask) problem.visibility.mask = mask.cview();
    if (rule == Rule::kBias) problem.rule.bias = bias.cview();
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  bool sees(Index row, Index key) const {
    const Index position = row + kOffset;
    switch (rule) {
      case Rule::kCausal:
        return key <= position;
      case Rule::kWindow:
        return position - key <= 40 && key - position <= 5;
      case Rule::kLength:
        return key < length[0];
      case Rule::kMask:
      case Rule::kBias:
        return row != 50 && key != 77 && (row * 7 + key * 3) % 5 != 0;
      case Rule::kNone:
        break;
    }
    return true;
  }
  bool empty_row(Index row) const {
    for (Index j = 0; j < kKeys; ++j) {
      if (sees(row, j)) return false;
    }
    return true;
  }
  AttentionResults<T> run() const { return {problem, grad_context.cview(), true}; }
};

// Which rows of which tensors a NaN must reach: (head, row) for queries, key for keys and values.
struct Reached {
  std::set<std::pair<Index, Index>> context, grad_queries;
  std::set<Index> grad_keys, grad_values;
};

template <class T>
bool all_nan(const TensorView<const T, 1>& row) {
  for (Index d = 0; d < row.size(0); ++d) {
    if (!std::isnan(widen<double>(row(d)))) return false;
  }
  return true;
}

// `tensor` row (head, index) is NaN throughout when reached, else it has the bits of `clean`.
template <class T>
void expect_reach(const Tensor<T, 4>& clean, const Tensor<T, 4>& got, const std::function<bool(Index, Index)>& reached,
                  const char* what, const std::string& where) {
  for (Index h = 0; h < got.size(1); ++h) {
    for (Index i = 0; i < got.size(2); ++i) {
      const auto row = got.cview().select(0, 0).select(0, h).select(0, i);
      if (reached(h, i)) {
        ASSERT_TRUE(all_nan(row)) << where << ": " << what << " of head " << h << ", row " << i << " is no NaN";
        continue;
      }
      for (Index d = 0; d < row.size(0); ++d) {
        ASSERT_TRUE(same_bits(clean(0, h, i, d), row(d)) && !std::isnan(widen<double>(row(d))))
            << where << ": " << what << " of head " << h << ", row " << i << " changed";
      }
    }
  }
}

template <class T>
void expect_reach(const AttentionResults<T>& clean, const AttentionResults<T>& got, const Reached& reached,
                  const std::string& where) {
  const auto in = [](const auto& set) { return [&set](Index h, Index i) { return set.contains({h, i}); }; };
  const auto key_in = [](const auto& set) { return [&set](Index, Index j) { return set.contains(j); }; };
  expect_reach<T>(clean.context, got.context, in(reached.context), "context", where);
  expect_reach<T>(clean.grad_queries, got.grad_queries, in(reached.grad_queries), "grad_queries", where);
  expect_reach<T>(clean.grad_keys, got.grad_keys, key_in(reached.grad_keys), "grad_keys", where);
  expect_reach<T>(clean.grad_values, got.grad_values, key_in(reached.grad_values), "grad_values", where);
}

enum class Planted { kKey, kValue, kQuery, kGradContext };
constexpr Planted kPlanted[] = {Planted::kKey, Planted::kValue, Planted::kQuery, Planted::kGradContext};
constexpr const char* kPlantedNames[] = {"key", "value", "query", "grad_context"};

// Fills row `index` (of head 0, or of the kv head) with NaN.
template <class T>
void plant(Case<T>& c, Planted what, Index index) {
  Tensor<T, 4>* tensors[] = {&c.keys, &c.values, &c.queries, &c.grad_context};
  testing::fill(tensors[static_cast<int>(what)]->view().select(0, 0).select(0, 0).slice(0, index, index + 1),
                [] { return testing::poison<T>(); });
}

template <class T>
Reached reach_of(const Case<T>& c, Planted what, Index index) {
  Reached reached;
  for (Index h = 0; h < kHeads; ++h) {
    for (Index i = 0; i < kRows; ++i) {
      const bool by_key = what == Planted::kKey || what == Planted::kValue;
      if (by_key ? !c.sees(i, index) : h != 0 || i != index || c.empty_row(i)) continue;
      if (what != Planted::kGradContext) reached.context.insert({h, i});
      reached.grad_queries.insert({h, i});
      for (Index j = 0; j < kKeys; ++j) {
        if (!c.sees(i, j)) continue;
        reached.grad_keys.insert(j);
        // The weights of a row are NaN when its scores are; a value has no part in them.
        if (what != Planted::kValue) reached.grad_values.insert(j);
      }
    }
  }
  return reached;
}

template <class T>
void plant_at_every_edge(Index step) {
  for (Rule rule : kRules) {
    const AttentionResults<T> clean = Case<T>(rule, false).run();
    Index number = 0;
    for (Planted what : kPlanted) {
      const bool by_key = what == Planted::kKey || what == Planted::kValue;
      for (Index edge : by_key ? kEdgeKeys : kEdgeRows) {
        if (number++ % step != 0) continue;
        Case<T> c(rule, false);
        plant(c, what, edge);
        expect_reach(clean, c.run(), reach_of(c, what, edge),
                     std::string(kRuleNames[static_cast<int>(rule)]) + ", NaN in " +
                         kPlantedNames[static_cast<int>(what)] + " " + std::to_string(edge) + " on " +
                         std::string(isa_name(chosen_isa())));
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// One of `step` cases; of the canonical program, which is slow, one of five; of each, fewer where fewer are asked for.
template <class T>
void on_every_isa(Index step) {
  const Index share = 100 / std::clamp<Index>(testing::case_count(100), 20, 100);
  for (Isa isa : available_isas()) {
    force_isa(isa);
    plant_at_every_edge<T>(share * (isa == Isa::kCanonical ? 5 : step));
  }
  force_isa(std::nullopt);
}

TEST(NonFinite, ANaNReachesExactlyWhatSeesItInFloat) { on_every_isa<float>(1); }

TEST(NonFinite, ANaNReachesExactlyWhatSeesItInDouble) { on_every_isa<double>(3); }

TEST(NonFinite, ANaNReachesExactlyWhatSeesItInBfloat16) { on_every_isa<bfloat16>(3); }

// Every key that no row sees is NaN or inf: all results are those of finite keys.
TEST(NonFinite, WhatIsBehindARuleIsNeverRead) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    for (Rule rule : kRules) {
      for (bool dropout : {false, true}) {
        Case<float> clean(rule, true), planted(rule, true);
        if (dropout) clean.problem.dropout = planted.problem.dropout = {0.3, 5, 0, 0, 0};
        Index hidden = 0;
        for (Index j = 0; j < kKeys; ++j) {
          bool seen = false;
          for (Index i = 0; i < kRows; ++i) seen = seen || planted.sees(i, j);
          if (seen) continue;
          const float infinity = std::numeric_limits<float>::infinity();
          const float bad = j % 3 == 0 ? infinity : j % 3 == 1 ? -infinity : testing::poison<float>();
          for (auto* tensor : {&planted.keys, &planted.values}) {
            testing::fill(tensor->view().slice(2, j, j + 1), [bad] { return bad; });
          }
          ++hidden;
        }
        EXPECT_EQ(hidden > 0, rule != Rule::kNone);
        expect_same_results(clean.run(), planted.run(), kRuleNames[static_cast<int>(rule)]);
      }
    }
  }
  force_isa(std::nullopt);
}

// One NaN in column 3 of a value: the other columns of the rows that see it are untouched.
TEST(NonFinite, AValuesColumnReachesThatColumnAlone) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    for (Rule rule : kRules) {
      Case<float> c(rule, false);
      const AttentionResults<float> clean = c.run();
      c.values(0, 0, 255, 3) = testing::poison<float>();
      const AttentionResults<float> got = c.run();
      for (Index h = 0; h < kHeads; ++h) {
        for (Index i = 0; i < kRows; ++i) {
          for (Index d = 0; d < kValueWidth; ++d) {
            const float value = got.context(0, h, i, d);
            const bool reached = d == 3 && c.sees(i, 255);
            ASSERT_TRUE(reached ? std::isnan(value) : same_bits(clean.context(0, h, i, d), value))
                << kRuleNames[static_cast<int>(rule)] << ", row " << i << ", column " << d;
          }
        }
      }
    }
  }
  force_isa(std::nullopt);
}

// A row that sees no key is 0 and adds 0, whatever its query and grad_context hold, with or without a sink.
TEST(NonFinite, ARowThatSeesNoKeyIsZeroWhateverItHolds) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    for (Rule rule : {Rule::kMask, Rule::kBias}) {
      for (bool sinks : {false, true}) {
        Case<float> c(rule, sinks);
        const AttentionResults<float> clean = c.run();
        plant(c, Planted::kQuery, 50);
        plant(c, Planted::kGradContext, 50);
        const AttentionResults<float> got = c.run();
        expect_same_results(clean, got, kRuleNames[static_cast<int>(rule)]);
        for (Index d = 0; d < kValueWidth; ++d) EXPECT_TRUE(same_bits(got.context(0, 0, 50, d), 0.0F));
        for (Index d = 0; d < kWidth; ++d) EXPECT_TRUE(same_bits(got.grad_queries(0, 0, 50, d), 0.0F));
        for (Index j = 0; j < kKeys; ++j) EXPECT_TRUE(same_bits(got.weights(0, 0, 50, j), 0.0F));
        EXPECT_EQ(got.logsumexp(0, 0, 50), -std::numeric_limits<float>::infinity());
        EXPECT_EQ(got.row_sum(0, 0, 50), 0.0F);
      }
    }
  }
  force_isa(std::nullopt);
}

}  // namespace
}  // namespace headwise
