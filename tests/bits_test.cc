// SPDX-License-Identifier: Apache-2.0
// Every fast path equals the canonical program bit for bit, on random problems with every option, on every instruction
// set this machine has, for any number of threads.
#include <gtest/gtest.h>

#include <cstdlib>

#include "headwise/kernels/attention.h"
#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "tests/random_problem.h"
#include "tests/support/attention_results.h"
#include "tests/support/case_count.h"

namespace headwise {
namespace {

using testing::AttentionResults;
using testing::case_count;
using testing::expect_same_results;
using testing::RandomProblem;

template <class T>
AttentionResults<T> results_of(const RandomProblem<T>& p, bool taps, const Execution& execution) {
  return {p.problem, p.grad_context.view, taps, execution};
}

// HEADWISE_TEST_SEED replays one case.
template <class T>
void run_cases(std::uint64_t first_seed, Index count, const testing::ProblemLimits& limits) {
  const char* only = std::getenv("HEADWISE_TEST_SEED");
  SerialExecutor serial;
  for (Index n = 0; n < (only != nullptr ? 1 : count); ++n) {
    const std::uint64_t seed = only != nullptr ? std::strtoull(only, nullptr, 10) : first_seed + n;
    const RandomProblem<T> p(seed, limits);
    Execution alone;
    alone.executor = &serial;
    force_isa(Isa::kCanonical);
    const AttentionResults<T> expected = results_of(p, true, alone);
    for (Isa isa : available_isas()) {
      if (isa == Isa::kCanonical) continue;
      force_isa(isa);
      const std::string where = p.description + " on " + std::string(isa_name(isa));
      expect_same_results(expected, results_of(p, n % 2 == 0, n % 3 == 0 ? Execution{} : alone), where);
    }
    if (::testing::Test::HasFailure()) break;
  }
  force_isa(std::nullopt);
}

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInFloat) { run_cases<float>(1, case_count(1200), {}); }

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInDouble) { run_cases<double>(10001, case_count(400), {}); }

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInBfloat16) { run_cases<bfloat16>(20001, case_count(200), {}); }

TEST(Bits, EveryInstructionSetEqualsTheCanonicalProgramInFloat16) { run_cases<float16>(30001, case_count(200), {}); }

TEST(Bits, ThreadCountNeverMatters) {
  for (Index n = 0; n < case_count(60); ++n) {
    testing::ProblemLimits limits;
    limits.most_rows = 520;
    const RandomProblem<float> p(40001 + n, limits);
    set_num_threads(1);
    const AttentionResults<float> expected = results_of(p, false, {});
    for (int count : {2, 3, 8}) {
      set_num_threads(count);
      expect_same_results(expected, results_of(p, false, {}),
                          p.description + " on " + std::to_string(count) + " threads");
    }
    if (::testing::Test::HasFailure()) break;
  }
  set_num_threads(2);
}

}  // namespace
}  // namespace headwise
