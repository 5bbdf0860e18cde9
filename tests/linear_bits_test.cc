// SPDX-License-Identifier: Apache-2.0
// The projection and its gradients: bits of the canonical program on every instruction set, values of plain loops in
// double.
#include <gtest/gtest.h>

#include <cstring>

#include "headwise/kernels/linear.h"
#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/tensor.h"
#include "tests/random_problem.h"
#include "tests/support/case_count.h"

namespace headwise {
namespace {

using testing::Dice;
using testing::PoisonedTensor;

template <class T>
struct LinearCase {
  PoisonedTensor<T, 2> x, weight, grad_out;
  Tensor<T, 1> bias;
  std::string description;

  explicit LinearCase(std::uint64_t seed) {
    Dice dice(seed);
    const Index tokens = dice.of<Index>({0, 1, 3, 5, 13, 63, 65, 191, 193, 300, 520});
    const Index d_in = dice.of<Index>({0, 1, 3, 16, 17, 64, 127, 255, 256, 257, 600});
    const Index d_out = dice.of<Index>({1, 2, 15, 16, 17, 33, 48, 65, 130, 270});
    x = {{tokens, d_in}, dice, dice.one_in(2)};
    weight = {{d_out, d_in}, dice, dice.one_in(2)};
    grad_out = {{tokens, d_out}, dice, dice.one_in(2)};
    bias = Tensor<T, 1>(Shape<1>{d_out});
    for (const auto& view : {x.view, weight.view, grad_out.view}) {
      testing::fill(view, [&] { return static_cast<T>(dice.normal()); });
    }
    testing::fill(bias.view(), [&] { return static_cast<T>(dice.normal()); });
    description = "seed " + std::to_string(seed) + ": " + std::to_string(tokens) + " tokens, " + std::to_string(d_in) +
                  " -> " + std::to_string(d_out);
  }
};

template <class T>
struct LinearResults {
  Tensor<T, 2> out, grad_x, grad_weight;
  Tensor<T, 1> grad_bias;

  LinearResults(const LinearCase<T>& c, bool with_bias)
      : out(Shape<2>{c.x.view.size(0), c.weight.view.size(0)}),
        grad_x(c.x.view.shape()),
        grad_weight(c.weight.view.shape()),
        grad_bias(Shape<1>{c.weight.view.size(0)}) {
    grad_weight.fill(T{2});  // gradients are added to
    const TensorView<const T, 1> bias = with_bias ? c.bias.view() : TensorView<const T, 1>{};
    linear_forward<T>(c.x.view, c.weight.view, bias, out.view());
    linear_backward_x<T>(c.grad_out.view, c.weight.view, grad_x.view());
    linear_backward_weight<T>(c.grad_out.view, c.x.view, grad_weight.view(), grad_bias.view());
  }
};

template <class T, int Rank>
void expect_same(const Tensor<T, Rank>& expected, const Tensor<T, Rank>& got, const std::string& where) {
  const auto bytes = static_cast<std::size_t>(expected.elements()) * sizeof(T);
  EXPECT_EQ(0, bytes == 0 ? 0 : std::memcmp(expected.data(), got.data(), bytes)) << where;
}

template <class T>
void run_cases(std::uint64_t first_seed, Index count) {
  for (Index n = 0; n < count; ++n) {
    const LinearCase<T> c(first_seed + n);
    force_isa(Isa::kCanonical);
    const LinearResults<T> expected(c, n % 2 == 0);
    for (Isa isa : available_isas()) {
      force_isa(isa);
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        const LinearResults<T> got(c, n % 2 == 0);
        const std::string where = c.description + " on " + std::string(isa_name(isa));
        expect_same(expected.out, got.out, "out, " + where);
        expect_same(expected.grad_x, got.grad_x, "grad_x, " + where);
        expect_same(expected.grad_weight, got.grad_weight, "grad_weight, " + where);
        expect_same(expected.grad_bias, got.grad_bias, "grad_bias, " + where);
      }
    }
    if (::testing::Test::HasFailure()) break;
  }
  force_isa(std::nullopt);
  set_num_threads(2);
}

TEST(LinearBits, EveryInstructionSetEqualsTheCanonicalProgramInFloat) { run_cases<float>(1, testing::case_count(60)); }

TEST(LinearBits, EveryInstructionSetEqualsTheCanonicalProgramInDouble) {
  run_cases<double>(1001, testing::case_count(30));
}

TEST(LinearBits, TheCanonicalProgramIsWithinSixEpsilonOfTheSumOfAbsoluteTerms) {
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    const LinearCase<float> c(seed);
    const LinearResults<float> got(c, false);
    for (Index t = 0; t < got.out.size(0); ++t) {
      for (Index o = 0; o < got.out.size(1); ++o) {
        double sum = 0, absolute = 0;
        for (Index i = 0; i < c.x.view.size(1); ++i) {
          const double term = static_cast<double>(c.x.view(t, i)) * c.weight.view(o, i);
          sum += term;
          absolute += std::fabs(term);
        }
        ASSERT_NEAR(sum, got.out(t, o), 6 * 0x1p-23 * absolute) << c.description;
      }
    }
  }
}

TEST(LinearBits, OneTokenAloneHasTheBitsItHasAmongMany) {
  Index compared = 0;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const LinearCase<float> c(seed);
    const Index tokens = c.x.view.size(0);
    Tensor<float, 2> all(Shape<2>{tokens, c.weight.view.size(0)}), one(Shape<2>{1, c.weight.view.size(0)});
    linear_forward<float>(c.x.view, c.weight.view, c.bias.cview(), all.view());
    for (Index t = 0; t < tokens; t += 7) {
      linear_forward<float>(c.x.view.slice(0, t, t + 1), c.weight.view, c.bias.cview(), one.view());
      for (Index o = 0; o < one.size(1); ++o, ++compared) ASSERT_EQ(all(t, o), one(0, o)) << c.description;
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace headwise
