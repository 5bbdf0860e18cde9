// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace headwise {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The published vectors of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The first words of MT19937 with its default seed, and the 10000th, which the C++ standard names.
TEST(TorchGenerator, IsTheClassicMersenneTwister) {
  TorchGenerator generator(5489);
  EXPECT_EQ(generator.next32(), 3499211612U);
  for (int i = 2; i < 10000; ++i) generator.next32();
  EXPECT_EQ(generator.next32(), 4123659995U);
}

TEST(TorchGenerator, GivesTorchRandOfSeed123) {
  TorchGenerator generator(123);
  for (float expected : {.2961F, .5166F, .2517F, .6886F, .0740F, .8665F}) {
    EXPECT_NEAR(generator.uniform24(), expected, 5e-5);
  }
}

TEST(TorchGenerator, GivesTorchRandnOfSeed123) {
  TorchGenerator generator(123);
  std::vector<float> values(10);
  generator.fill_normal(values, 0, 1);
  const std::vector<float> expected = {-.1115F, .1204F,  -.3696F, -.2404F, -1.1969F,
                                       .2093F,  -.9724F, -.7550F, .3239F,  -.1085F};
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 5e-5) << "value " << i;
}

// torch.nn.Linear(3, 2) after manual_seed(123): head 0's W_query of the book.
TEST(TorchGenerator, GivesTheWeightsOfTorchLinear) {
  TorchGenerator generator(123);
  std::vector<float> weight(6);
  const double bound = 1 / std::sqrt(3.0);
  generator.fill_uniform(weight, -bound, bound);
  const std::vector<float> expected = {-.2354F, .0191F, -.2867F, .2177F, -.4919F, .4232F};
  for (std::size_t i = 0; i < weight.size(); ++i) EXPECT_NEAR(weight[i], expected[i], 5e-5) << "weight " << i;
}

TEST(TorchGenerator, DrawsNormalsOfTheRightMomentsInBlocksAndInTheTail) {
  for (std::size_t count : {15U, 16U, 17U, 100'003U}) {
    TorchGenerator generator(7);
    std::vector<double> values(count);
    generator.fill_normal(values, 2, 0.5);
    double sum = 0;
    for (double value : values) {
      ASSERT_TRUE(std::isfinite(value));
      ASSERT_NEAR(value, 2, 0.5 * 6);
      sum += value;
    }
    const double spread = 0.5 / std::sqrt(static_cast<double>(count));
    EXPECT_NEAR(sum / static_cast<double>(count), 2, 5 * spread) << count << " values";
  }
}

}  // namespace
}  // namespace headwise
