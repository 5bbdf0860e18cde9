// SPDX-License-Identifier: Apache-2.0
// No kernel reads or writes a byte outside its arguments, or writes to an input: every tensor lies against a forbidden
// page, before it and behind it in turn, inputs are closed for writing. A stray access ends the test by a signal.
#include <gtest/gtest.h>

#include <memory>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/linear.h"
#include "headwise/layers/kv_cache.h"
#include "headwise/runtime/isa.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/case_count.h"
#include "tests/support/guarded_memory.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::Dice;
using testing::expect_same_bits;
using testing::GuardedTensor;
using testing::Placement;
using testing::RandomProblem;

constexpr Placement kPlacements[] = {Placement::kFirstByteBehindGuard, Placement::kLastByteBeforeGuard};

template <class T, int Rank>
struct MaybeGuarded {
  std::unique_ptr<GuardedTensor<T, Rank>> tensor;
  MaybeGuarded(const TensorView<const T, Rank>& source, Placement placement) {
    if (source) tensor = std::make_unique<GuardedTensor<T, Rank>>(source, placement);
  }
  TensorView<const T, Rank> cview() const { return tensor ? tensor->cview() : TensorView<const T, Rank>{}; }
};

// A problem whose tensors are all guarded, its inputs read-only.
template <class T>
struct GuardedProblem {
  using A = Accumulated<T>;
  MaybeGuarded<T, 4> queries, keys, values, bias, grad_context;
  MaybeGuarded<bool, 4> mask;
  MaybeGuarded<A, 1> slopes, sinks;
  AttentionProblem<T> problem;

  GuardedProblem(const RandomProblem<T>& p, Placement placement)
      : queries(p.problem.inputs.queries, placement),
        keys(p.problem.inputs.keys, placement),
        values(p.problem.inputs.values, placement),
        bias(p.problem.rule.bias, placement),
        grad_context(p.grad_context.view, placement),
        mask(p.problem.visibility.mask, placement),
        slopes(p.problem.rule.alibi_slopes, placement),
        sinks(p.problem.rule.sinks, placement),
        problem(p.problem) {
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    problem.rule.bias = bias.cview();
    problem.rule.alibi_slopes = slopes.cview();
    problem.rule.sinks = sinks.cview();
    problem.visibility.mask = mask.cview();
  }
};

// Forward and backward into guarded outputs.
template <class T>
void compare_guarded(const RandomProblem<T>& p, const AttentionResults<T>& expected, Placement placement) {
  using A = Accumulated<T>;
  const GuardedProblem<T> g(p, placement);
  const auto like = [&]<class E, int Rank>(const Tensor<E, Rank>& tensor) {
    return GuardedTensor<E, Rank>(tensor.shape(), placement);
  };
  const auto context = like(expected.context), weights = like(expected.weights), queries = like(expected.grad_queries),
             keys = like(expected.grad_keys), values = like(expected.grad_values), bias = like(expected.grad_bias);
  const auto unrounded = like(expected.unrounded_context);
  const auto row_max = like(expected.row_max), row_sum = like(expected.row_sum);
  AttentionOutputs<T> outputs;
  outputs.context = context.view();
  outputs.unrounded_context = unrounded.view();
  outputs.row_max = row_max.view();
  outputs.row_sum = row_sum.view();
  attention_forward(g.problem, outputs);  // by itself first: tiles that are split or not tapped
  expect_same_bits(expected.context.cview(), context.cview(), "context", p.description);
  outputs.weights = weights.view();
  outputs.weights_after_dropout = p.shape.seq_q % 2 == 0;
  attention_forward(g.problem, outputs);
  expect_same_bits(expected.weights.cview(), weights.cview(), "weights", p.description);

  const GuardedTensor<A, 4> saved_context(unrounded.cview(), placement);
  const GuardedTensor<A, 3> saved_max(row_max.cview(), placement), saved_sum(row_sum.cview(), placement);
  AttentionGradients<T> gradients;
  gradients.queries = queries.view();
  gradients.keys = keys.view();
  gradients.values = values.view();
  if (g.problem.rule.bias) gradients.bias = bias.view();
  attention_backward<T>(g.problem, g.grad_context.cview(),
                        {saved_context.cview(), saved_max.cview(), saved_sum.cview()}, gradients);
  expect_same_bits(expected.grad_queries.cview(), queries.cview(), "grad_queries", p.description);
  expect_same_bits(expected.grad_keys.cview(), keys.cview(), "grad_keys", p.description);
  expect_same_bits(expected.grad_values.cview(), values.cview(), "grad_values", p.description);
  if (g.problem.rule.bias) expect_same_bits(expected.grad_bias.cview(), bias.cview(), "grad_bias", p.description);
}

template <class T>
void run_attention(std::uint64_t first_seed, Index count) {
  testing::ProblemLimits limits;
  limits.most_rows = 140;
  for (Index n = 0; n < count && !::testing::Test::HasFailure(); ++n) {
    const RandomProblem<T> p(first_seed + static_cast<std::uint64_t>(n), limits);
    const AttentionResults<T> expected(p.problem, p.grad_context.view, true);
    for (Isa isa : available_isas()) {
      if (isa == Isa::kCanonical && n % 8 != 0) continue;  // slow; its views check their own indices in debug builds
      force_isa(isa);
      for (Placement placement : kPlacements) compare_guarded(p, expected, placement);
    }
    force_isa(std::nullopt);
  }
}

TEST(GuardPages, AreForbidden) {
  for (Placement placement : kPlacements) {
    const GuardedTensor<float, 1> tensor(Shape<1>{100}, placement);
    const bool behind = placement == Placement::kFirstByteBehindGuard;
    const volatile float* outside = behind ? tensor.view().data() - 1 : tensor.view().data() + 100;
    EXPECT_DEATH(static_cast<void>(*outside), "");
  }
}

TEST(GuardPages, AttentionInFloatStaysInside) { run_attention<float>(400001, testing::case_count(120)); }

TEST(GuardPages, AttentionInDoubleStaysInside) { run_attention<double>(410001, testing::case_count(60)); }

TEST(GuardPages, AttentionInBfloat16StaysInside) { run_attention<bfloat16>(420001, testing::case_count(60)); }

template <class T>
void run_decoding(Index head_dim, Index v_head_dim, Placement placement) {
  constexpr Index kBatch = 2, kHeads = 3, kKvHeads = 1, kSteps = 40;
  KvCache<T> cache({kBatch, kKvHeads, 300, head_dim, v_head_dim});
  Dice dice(9);
  for (Index step = 0, tokens = 1; step < kSteps; ++step, tokens = 1 + step * 7 % 13) {
    Tensor<T, 4> queries({kBatch, kHeads, tokens, head_dim}), keys({kBatch, kKvHeads, tokens, head_dim}),
        values({kBatch, kKvHeads, tokens, v_head_dim});
    for (auto* tensor : {&queries, &keys, &values}) {
      testing::fill(tensor->view(), [&] { return narrow<T>(static_cast<Accumulated<T>>(dice.normal())); });
    }
    const GuardedTensor<T, 4> q(queries.cview(), placement), k(keys.cview(), placement), v(values.cview(), placement);
    cache.append(k.cview(), v.cview());
    AttentionProblem<T> problem;
    problem.inputs.queries = q.cview();
    problem.visibility.causal = true;
    const GuardedTensor<T, 4> context({kBatch, kHeads, tokens, v_head_dim}, placement);
    AttentionOutputs<T> outputs;
    outputs.context = context.view();
    cache.attend(problem, outputs);
    if (step == 0)
      expect_same_bits<T, 3>(values.cview().select(1, 0), context.cview().select(1, 2), "context", "step 0");
  }
}

TEST(GuardPages, DecodingStaysInside) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    for (Placement placement : kPlacements) {
      for (Index width : {1, 17, 40}) {
        run_decoding<float>(width, width + 2, placement);
        run_decoding<double>(width, width, placement);
        run_decoding<bfloat16>(width + 1, width, placement);
      }
    }
  }
  force_isa(std::nullopt);
}

template <class T>
void run_linear(Index tokens, Index d_in, Index d_out, Placement placement) {
  Dice dice(11);
  Tensor<T, 2> x(Shape<2>{tokens, d_in}), weight(Shape<2>{d_out, d_in}), grad_out(Shape<2>{tokens, d_out});
  Tensor<T, 1> bias(Shape<1>{d_out});
  for (auto* tensor : {&x, &weight, &grad_out}) {
    testing::fill(tensor->view(), [&] { return static_cast<T>(dice.normal()); });
  }
  const GuardedTensor<T, 2> gx(x.cview(), placement), gw(weight.cview(), placement), gg(grad_out.cview(), placement);
  const GuardedTensor<T, 1> gb(bias.cview(), placement);
  const GuardedTensor<T, 2> out(grad_out.shape(), placement), grad_x(x.shape(), placement),
      grad_weight(weight.shape(), placement);
  const GuardedTensor<T, 1> grad_bias(bias.shape(), placement);
  linear_forward<T>(gx.cview(), gw.cview(), gb.cview(), out.view());
  linear_backward_x<T>(gg.cview(), gw.cview(), grad_x.view());
  linear_backward_weight<T>(gg.cview(), gx.cview(), grad_weight.view(), grad_bias.view());
  Tensor<T, 2> expected(grad_out.shape());
  linear_forward<T>(x.cview(), weight.cview(), bias.cview(), expected.view());
  expect_same_bits(expected.cview(), out.cview(), "out", std::to_string(tokens) + " tokens");
}

TEST(GuardPages, TheProjectionAndItsGradientsStayInside) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    for (Placement placement : kPlacements) {
      for (Index tokens : {1, 5, 13, 193}) {
        for (Index width : {1, 17, 31, 130, 257}) {
          run_linear<float>(tokens, width, width / 2 + 1, placement);
          run_linear<double>(tokens, width / 2 + 1, width, placement);
        }
      }
    }
  }
  force_isa(std::nullopt);
}

}  // namespace
}  // namespace headwise
