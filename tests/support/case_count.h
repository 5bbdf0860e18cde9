// SPDX-License-Identifier: Apache-2.0
// How many random cases a test runs.
#ifndef HEADWISE_TESTS_SUPPORT_CASE_COUNT_H_
#define HEADWISE_TESTS_SUPPORT_CASE_COUNT_H_

#include <algorithm>
#include <cstdlib>

#include "headwise/tensor/tensor_view.h"

namespace headwise::testing {

// HEADWISE_TEST_CASES is the share of the random cases to run, in percent: slow builds take a few.
inline Index case_count(Index usual) {
  const char* text = std::getenv("HEADWISE_TEST_CASES");
  return text == nullptr ? usual : std::max<Index>(1, usual * std::atoll(text) / 100);
}

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_CASE_COUNT_H_
