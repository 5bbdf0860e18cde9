// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "headwise/runtime/run_tasks.h"
#include "headwise/runtime/threads.h"

namespace headwise {
namespace {

constexpr Index kMebi = Index{1} << 20;

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % Scratch::kAlignment == 0; }

TEST(Scratch, GivesAlignedPiecesThatDoNotOverlap) {
  Scratch scratch;
  ScratchFrame frame(scratch);
  std::vector<std::uint8_t*> pieces;
  for (Index size = 0; size < 300; ++size) {
    pieces.push_back(frame.take<std::uint8_t>(size * 37));
    ASSERT_NE(pieces.back(), nullptr);
    EXPECT_TRUE(is_aligned(pieces.back()));
    std::memset(pieces.back(), static_cast<int>(size % 251), static_cast<std::size_t>(size * 37));
  }
  for (Index size = 0; size < 300; ++size) {
    for (Index i = 0; i < size * 37; ++i) ASSERT_EQ(pieces[size][i], size % 251) << "piece " << size;
  }
}

TEST(Scratch, GivesTheSameMemoryAgainAfterAFrameCloses) {
  Scratch scratch;
  const ScratchFrame outer(scratch);
  void* first = nullptr;
  {
    ScratchFrame inner(scratch);
    first = inner.take<float>(100);
  }
  ScratchFrame inner(scratch);
  EXPECT_EQ(inner.take<double>(10), first);
}

TEST(Scratch, KeepsWhatTheOuterFrameTookWhileInnerFramesGrow) {
  Scratch scratch;
  ScratchFrame outer(scratch);
  int* kept = outer.take<int>(1000);
  for (int i = 0; i < 1000; ++i) kept[i] = i;
  for (Index size = 1; size < 4 * kMebi; size *= 4) {
    ScratchFrame inner(scratch);
    std::memset(inner.take<std::uint8_t>(size), 0xFF, static_cast<std::size_t>(size));
  }
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(kept[i], i);
}

TEST(Scratch, AllocatesNothingFromTheThirdCallOn) {
  Scratch scratch;
  const auto call = [&] {
    ScratchFrame frame(scratch);
    frame.take<float>(300'000);
    for (int step = 0; step < 10; ++step) {
      ScratchFrame inner(scratch);
      inner.take<double>(100'000 + step);
      inner.take<char>(17);
    }
  };
  call();
  call();
  const std::uint64_t before = scratch.allocations();
  EXPECT_GT(before, 0U);
  for (int round = 0; round < 10; ++round) call();
  EXPECT_EQ(scratch.allocations(), before);
}

TEST(Scratch, ReplacesSeveralBlocksByOne) {
  Scratch scratch;
  const auto call = [&] {
    ScratchFrame frame(scratch);
    for (int piece = 0; piece < 20; ++piece) frame.take<float>(50'000);
  };
  call();
  EXPECT_GT(scratch.allocations(), 1U);
  EXPECT_EQ(scratch.held_bytes(), 0U);  // given back; the size is remembered
  const std::uint64_t before = scratch.allocations();
  call();
  EXPECT_EQ(scratch.allocations(), before + 1);
  EXPECT_GE(scratch.held_bytes(), std::size_t{20 * 50'000 * sizeof(float)});
}

TEST(Scratch, HoldsNoMoreThanItsLimitBetweenCalls) {
  Scratch scratch;
  {
    ScratchFrame frame(scratch);
    frame.take<std::uint8_t>(static_cast<Index>(Scratch::kKeepBytes) + 1);
    EXPECT_GT(scratch.held_bytes(), Scratch::kKeepBytes);
  }
  EXPECT_EQ(scratch.held_bytes(), 0U);
  {
    ScratchFrame frame(scratch);
    frame.take<float>(10);
  }
  EXPECT_LE(scratch.held_bytes(), Scratch::kKeepBytes);
}

TEST(Scratch, RefusesSizesThatCannotBe) {
  Scratch scratch;
  ScratchFrame frame(scratch);
  EXPECT_THROW(frame.take<float>(-1), std::bad_alloc);
  EXPECT_THROW(frame.take<double>(std::numeric_limits<Index>::max()), std::bad_alloc);
  EXPECT_NE(frame.take<float>(0), frame.take<float>(0));
}

TEST(Scratch, PutsLargeBlocksOnHugePageBorders) {
  Scratch scratch;
  ScratchFrame frame(scratch);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame.take<float>(kMebi)) % Scratch::kHugePage, 0U);
}

TEST(Scratch, IsOneForEachThread) {
  Scratch* here = &scratch_for_this_thread();
  EXPECT_EQ(here, &scratch_for_this_thread());
  std::thread([&] { EXPECT_NE(here, &scratch_for_this_thread()); }).join();
}

TEST(Scratch, OfWorkersAllocatesNothingInSteadyState) {
  set_num_threads(2);
  std::atomic<int> inside{0};
  const auto call = [&] {
    inside = 0;
    run_tasks({}, 2, [&](Index i, int) {
      ScratchFrame frame;
      float* piece = frame.take<float>(200'000);
      piece[0] = static_cast<float>(i);
      inside.fetch_add(1);
      while (inside < 2) std::this_thread::yield();  // each worker takes one
    });
  };
  call();
  call();
  const std::uint64_t before = scratch_allocations();
  for (int round = 0; round < 20; ++round) call();
  EXPECT_EQ(scratch_allocations(), before);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(ScratchDeathTest, TrapsUseOutsideOfAPieceUnderTheAddressSanitizer) {
  Scratch scratch;
  ScratchFrame frame(scratch);
  volatile float* piece = frame.take<float>(10);
  piece[9] = 1;
  EXPECT_DEATH(piece[10] = 1, "use-after-poison");
  volatile float* closed = nullptr;
  {
    ScratchFrame inner(scratch);
    closed = inner.take<float>(10);
  }
  EXPECT_DEATH(closed[0] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace headwise
