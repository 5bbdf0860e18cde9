// SPDX-License-Identifier: Apache-2.0
// 16-bit storage costs its own rounding and nothing else: outputs and gradients are as near to the reference in double,
// on the same widened inputs, as rounding that reference once would be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/reference.h"
#include "headwise/kernels/widened.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/case_count.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::Dice;

constexpr Index kWidth = 64;

template <class T>
double relative_error(const Tensor<double, 4>& expected, const Tensor<T, 4>& got) {
  double error = 0, size = 0;
  for (Index n = 0; n < expected.elements(); ++n) {
    const double difference = widen<double>(got.data()[n]) - expected.data()[n];
    error += difference * difference;
    size += expected.data()[n] * expected.data()[n];
  }
  return std::sqrt(error / size);
}

// What is left when `expected` is rounded once.
template <class T>
double rounding_floor(const Tensor<double, 4>& expected) {
  Tensor<T, 4> rounded(expected.shape());
  convert_elements(expected.cview(), rounded.view(), [](double value) { return narrow<T>(value); });
  return relative_error(expected, rounded);
}

// The float32 sums in front of the rounding move a result by far less than a step: it may be this much above the floor.
constexpr double kAboveFloor = 1.001;

// most: the largest relative error of any tensor at a length of 1024; the floor of a shorter one is another number.
template <class T>
void expect_rounding_floor(bool causal, double most) {
  Dice dice(21);
  // The reference is slow: shorter where fewer cases are asked for.
  const Shape<4> shape{1, 1, std::max<Index>(testing::case_count(1024), 256), kWidth};
  Tensor<T, 4> queries(shape), keys(shape), values(shape), grad_context(shape);
  for (auto* tensor : {&queries, &keys, &values, &grad_context}) {
    testing::fill(tensor->view(), [&] { return narrow<T>(dice.normal()); });
  }
  AttentionProblem<T> problem;
  problem.inputs = {queries.cview(), keys.cview(), values.cview()};
  problem.visibility.causal = causal;

  const WideProblem<double, T> wide(problem);
  const Tensor<double, 4> wide_grad = widened<double>(grad_context.cview());
  Tensor<double, 4> context(shape), grad_queries(shape), grad_keys(shape), grad_values(shape);
  AttentionOutputs<double> outputs;
  outputs.context = context.view();
  const AttentionShape sizes = check_attention("test", problem);
  reference::attention_forward(wide.problem, sizes, outputs);
  reference::attention_backward(wide.problem, sizes, wide_grad.cview(),
                                {grad_queries.view(), grad_keys.view(), grad_values.view(), {}, {}, {}});

  const AttentionResults<T> got(problem, grad_context.cview(), false);
  const auto check = [&](const char* what, const Tensor<double, 4>& expected, const Tensor<T, 4>& result) {
    const double error = relative_error(expected, result), floor = rounding_floor<T>(expected);
    ::testing::Test::RecordProperty(what, std::to_string(error));
    if (shape[2] == 1024) {
      EXPECT_LE(error, most) << what;
    }
    EXPECT_LE(error, kAboveFloor * floor) << what << " above its own rounding";
    EXPECT_GT(error, 0.9 * floor) << what << ": nearer than a rounded result can be";
  };
  check("context", context, got.context);
  check("grad_queries", grad_queries, got.grad_queries);
  check("grad_keys", grad_keys, got.grad_keys);
  check("grad_values", grad_values, got.grad_values);
}

TEST(HalfPrecision, Bfloat16IsAtTheRoundingFloor) { expect_rounding_floor<bfloat16>(false, 1.7e-3); }

TEST(HalfPrecision, Float16IsAtTheRoundingFloor) { expect_rounding_floor<float16>(false, 2.2e-4); }

// The first rows of a causal problem have contexts as large as a value: a gradient taken from the context as it is
// stored, rounded, would be up to a tenth above the floor.
TEST(HalfPrecision, CausalBfloat16IsAtTheRoundingFloor) { expect_rounding_floor<bfloat16>(true, 1.7e-3); }

TEST(HalfPrecision, CausalFloat16IsAtTheRoundingFloor) { expect_rounding_floor<float16>(true, 2.2e-4); }

}  // namespace
}  // namespace headwise
