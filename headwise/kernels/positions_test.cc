// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/positions.h"

#include <gtest/gtest.h>

namespace headwise {
namespace {

constexpr Index kLargest = std::numeric_limits<Index>::max();

KeyRange range_of(bool causal, Index left, Index right, Index keys, Index position) {
  Visibility visibility;
  visibility.causal = causal;
  visibility.window_left = left;
  visibility.window_right = right;
  return key_range(visibility, keys, position);
}

// Every rule, key by key, as attention.h states it.
bool allowed(bool causal, Index left, Index right, Index position, Index key) {
  if (causal && key > position) return false;
  if (left >= 0 && position - key > left) return false;
  return right < 0 || key - position <= right;
}

TEST(KeyRange, HoldsExactlyTheKeysThatEveryRuleAllows) {
  constexpr Index kKeys = 9;
  for (bool causal : {false, true}) {
    for (Index left = -1; left < 12; ++left) {
      for (Index right = -1; right < 12; ++right) {
        for (Index position = -14; position < 24; ++position) {
          const KeyRange range = range_of(causal, left, right, kKeys, position);
          for (Index key = 0; key < kKeys; ++key) {
            ASSERT_EQ(range.begin <= key && key < range.end, allowed(causal, left, right, position, key))
                << "causal " << causal << ", window (" << left << ", " << right << "), position " << position
                << ", key " << key;
          }
        }
      }
    }
  }
}

TEST(KeyRange, AWindowOfTheLargestNumberHidesNothing) {
  for (Index position : {Index{-300}, Index{0}, Index{5}, Index{1} << 40}) {
    const KeyRange range = range_of(false, kLargest, kLargest, 10, position);
    EXPECT_EQ(range.begin, 0) << position;
    EXPECT_EQ(range.end, 10) << position;
  }
}

TEST(KeyRange, QueriesFarFromTheKeysSeeNoneOrAllOfThem) {
  constexpr Index kFar = Index{1} << 62;
  EXPECT_EQ(range_of(true, -1, -1, 10, kFar).end, 10);
  const KeyRange before = range_of(true, -1, -1, 10, -kFar);
  EXPECT_LE(before.end, before.begin);
  const KeyRange behind = range_of(false, 100, -1, 10, kFar);
  EXPECT_LE(std::min<Index>(behind.end, 10), behind.begin);
}

}  // namespace
}  // namespace headwise
