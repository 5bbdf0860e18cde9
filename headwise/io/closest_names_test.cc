// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/closest_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(EditDistance, CountsInsertedDeletedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("attend", "attend", 3), 0U);
  EXPECT_EQ(edit_distance("attend", "atend", 3), 1U);
  EXPECT_EQ(edit_distance("attend", "attends", 3), 1U);
  EXPECT_EQ(edit_distance("attend", "attand", 3), 1U);
  EXPECT_EQ(edit_distance("attend", "attedn", 3), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 9), 3U);
  EXPECT_EQ(edit_distance("", "abc", 9), 3U);
}

TEST(EditDistance, StopsAtTheLimit) {
  EXPECT_EQ(edit_distance("abcdef", "uvwxyz", 2), 3U);
  EXPECT_EQ(edit_distance("a", "abcdef", 2), 3U);
}

TEST(ClosestNames, TheNearestComeFirstAndFarOnesNotAtAll) {
  const std::vector<std::string> names{"layer.10.query", "layer.1.query", "layer.1.key", "embeddings"};
  EXPECT_THAT(closest_names("layer.1.querry", names, 2), ElementsAre("layer.1.query", "layer.10.query"));
  EXPECT_THAT(closest_names("zzz", names, 3), IsEmpty());
  EXPECT_THAT(closest_names(std::string(1000, 'x'), std::vector{std::string(1000, 'x')}, 3), IsEmpty());
}

}  // namespace
}  // namespace headwise
