// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/shape_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

AttentionConfig config(Index d_in, Index d_out, Index heads) {
  AttentionConfig config;
  config.d_in = d_in;
  config.d_out = d_out;
  config.num_heads = heads;
  return config;
}

const ShapeStep& step(const std::vector<ShapeStep>& path, const std::string& name) {
  for (const ShapeStep& each : path) {
    if (each.name == name) return each;
  }
  throw std::runtime_error("no step " + name);
}

TEST(ShapePath, GoesFromInputToOutputInTheSeedsWords) {
  std::vector<std::string> names;
  for (const ShapeStep& each : shape_path(config(5, 12, 3), 2, 7)) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("input", "queries", "split", "transposed", "scores", "weights", "context", "merged",
                                 "output"));
}

TEST(ShapePath, EveryShapeNamesItsAxes) {
  const auto path = shape_path(config(5, 12, 3), 2, 7);
  EXPECT_THAT(step(path, "input").shape, ElementsAre(2, 7, 5));
  EXPECT_THAT(step(path, "queries").shape, ElementsAre(2, 7, 12));
  EXPECT_THAT(step(path, "split").shape, ElementsAre(2, 7, 3, 4));
  EXPECT_THAT(step(path, "split").axes, ElementsAre("batch", "seq", "heads", "head_dim"));
  EXPECT_THAT(step(path, "transposed").shape, ElementsAre(2, 3, 7, 4));
  EXPECT_THAT(step(path, "scores").shape, ElementsAre(2, 3, 7, 7));
  EXPECT_THAT(step(path, "context").shape, ElementsAre(2, 3, 7, 4));
  EXPECT_THAT(step(path, "merged").shape, ElementsAre(2, 7, 12));
  EXPECT_THAT(step(path, "output").shape, ElementsAre(2, 7, 12));
  for (const ShapeStep& each : path) EXPECT_EQ(each.axes.size(), each.shape.size()) << each.name;
}

TEST(ShapePath, SplittingAndSwappingCopyNothing) {
  const auto path = shape_path(config(5, 12, 3), 2, 7);
  EXPECT_EQ(step(path, "queries").memory, StepMemory::kNew);
  EXPECT_EQ(step(path, "split").memory, StepMemory::kView);
  EXPECT_EQ(step(path, "transposed").memory, StepMemory::kView);
  EXPECT_EQ(step(path, "context").memory, StepMemory::kNew);
  EXPECT_EQ(step(path, "merged").memory, StepMemory::kView);
  // A row holds queries, keys and values: 36 numbers.
  EXPECT_THAT(step(path, "queries").strides, ElementsAre(7 * 36, 36, 1));
  EXPECT_THAT(step(path, "split").strides, ElementsAre(7 * 36, 36, 4, 1));
  EXPECT_THAT(step(path, "transposed").strides, ElementsAre(7 * 36, 4, 36, 1));
  EXPECT_THAT(step(path, "context").strides, ElementsAre(7 * 12, 4, 12, 1));
}

TEST(ShapePath, ScoresAndWeightsAreNeverStored) {
  const auto path = shape_path(config(5, 12, 3), 2, 7);
  for (const char* name : {"scores", "weights"}) {
    EXPECT_EQ(step(path, name).memory, StepMemory::kNeverStored);
    EXPECT_THAT(step(path, name).strides, IsEmpty());
  }
}

TEST(ShapePath, WithoutAnOutputProjectionItEndsMerged) {
  AttentionConfig bare = config(5, 12, 3);
  bare.out_proj = false;
  EXPECT_EQ(shape_path(bare, 1, 4).back().name, "merged");
}

TEST(ShapePath, CountsThatDoNotDivideAreRefused) { EXPECT_THROW(shape_path(config(5, 12, 5), 1, 4), ShapeError); }

}  // namespace
}  // namespace headwise
