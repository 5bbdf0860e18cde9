// SPDX-License-Identifier: Apache-2.0
// A raised cancel flag ends a call with Cancelled, before it begins or while it runs; the threads then serve the next.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/linear.h"
#include "headwise/runtime/threads.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::Dice;

struct SelfAttention {
  Tensor<float, 4> queries, keys, values, context;
  Tensor<float, 3> row_max, row_sum;
  AttentionProblem<float> problem;

  SelfAttention(Index heads, Index seq, Index width)
      : queries({1, heads, seq, width}),
        keys(queries.shape()),
        values(queries.shape()),
        context(queries.shape()),
        row_max({1, heads, seq}),
        row_sum({1, heads, seq}) {
    Dice dice(1);
    for (auto* tensor : {&queries, &keys, &values}) {
      testing::fill(tensor->view(), [&] { return static_cast<float>(dice.uniform(-1, 1)); });
    }
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    row_sum.fill(1.0F);
  }
  SelfAttention(const SelfAttention&) = delete;
  SelfAttention& operator=(const SelfAttention&) = delete;

  void forward(const Execution& execution) {
    AttentionOutputs<float> outputs;
    outputs.context = context.view();
    outputs.row_max = row_max.view();
    outputs.row_sum = row_sum.view();
    attention_forward(problem, outputs, execution);
  }
  // Any saved forward will do: the call is not to reach its end.
  void backward(const Execution& execution) {
    Tensor<float, 4> grad_queries(queries.shape()), grad_keys(keys.shape()), grad_values(values.shape());
    attention_backward<float>(problem, queries.cview(), {context.cview(), row_max.cview(), row_sum.cview()},
                              {grad_queries.view(), grad_keys.view(), grad_values.view(), {}, {}, {}}, execution);
  }
};

using Call = std::function<void(const Execution&)>;

TEST(Cancellation, AFlagRaisedBeforehandEndsEveryCall) {
  SelfAttention small(2, 300, 8);
  small.context.fill(7.0F);
  Tensor<float, 2> x({5, 6}), weight({4, 6}), out({5, 4}), grad_weight({4, 6});
  const std::atomic<bool> raised{true};
  Execution execution;
  execution.cancel = &raised;
  EXPECT_THROW(small.forward(execution), Cancelled);
  EXPECT_EQ(small.context(0, 1, 299, 7), 7.0F);
  EXPECT_THROW(small.backward(execution), Cancelled);
  EXPECT_THROW(linear_forward<float>(x.cview(), weight.cview(), {}, out.view(), execution), Cancelled);
  EXPECT_THROW(linear_backward_x<float>(out.cview(), weight.cview(), x.view(), execution), Cancelled);
  EXPECT_THROW(linear_backward_weight<float>(out.cview(), x.cview(), grad_weight.view(), {}, execution), Cancelled);
}

// The uncancelled calls below take seconds; the flag is raised after some milliseconds.
void expect_cancelled_soon(const Call& call, const char* what) {
  std::atomic<bool> flag{false};
  std::atomic<bool> thrown{false};
  Execution execution;
  execution.cancel = &flag;
  std::jthread raiser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    flag = true;
  });
  try {
    call(execution);
  } catch (const Cancelled&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown) << what;
}

void expect_every_long_call_cancelled() {
  SelfAttention one_head(1, 16000, 64), many_heads(16, 4000, 64);
  expect_cancelled_soon([&](const Execution& e) { one_head.forward(e); }, "forward of one head");
  expect_cancelled_soon([&](const Execution& e) { one_head.backward(e); }, "backward of one head");
  expect_cancelled_soon([&](const Execution& e) { many_heads.forward(e); }, "forward of many heads");
  expect_cancelled_soon([&](const Execution& e) { many_heads.backward(e); }, "backward of many heads");
}

TEST(Cancellation, AFlagRaisedDuringALongCallEndsItAndThePoolWorksOn) {
  SelfAttention small(1, 700, 16);
  const AttentionResults<float> expected(small.problem, small.queries.cview(), false);
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    expect_every_long_call_cancelled();
    testing::expect_same_results(expected, AttentionResults<float>(small.problem, small.queries.cview(), false),
                                 "after cancelled calls");
  }
  set_num_threads(2);
}

// The flag may also be raised from the call's own progress callback.
TEST(Cancellation, TheProgressCallbackMayRaiseTheFlag) {
  SelfAttention small(8, 600, 16);
  std::atomic<bool> flag{false};
  Index reports = 0;
  Execution execution;
  execution.cancel = &flag;
  execution.progress = [&](Index done, Index total) {
    ++reports;
    EXPECT_LT(done, total);
    flag = true;
  };
  SerialExecutor serial;
  execution.executor = &serial;
  EXPECT_THROW(small.forward(execution), Cancelled);
  EXPECT_EQ(reports, 1);
}

}  // namespace
}  // namespace headwise
