// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>

#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/tensor.h"
#include "tests/random_problem.h"

namespace headwise {
namespace {

using testing::Dice;

template <class T>
struct Decoding {
  Tensor<T, 4> queries, keys, values;
  AttentionProblem<T> problem;

  Decoding(Index batch, Index heads, Index kv_heads, Index seq, Index head_dim, Index v_head_dim)
      : queries({batch, heads, seq, head_dim}),
        keys({batch, kv_heads, seq, head_dim}),
        values({batch, kv_heads, seq, v_head_dim}) {
    Dice dice(7);
    for (auto* tensor : {&queries, &keys, &values}) {
      testing::fill(tensor->view(), [&] { return narrow<T>(static_cast<Accumulated<T>>(dice.normal())); });
    }
    problem.inputs = {queries.cview(), keys.cview(), values.cview()};
    problem.visibility.causal = true;
  }

  Tensor<T, 4> all_at_once() const {
    Tensor<T, 4> context({queries.size(0), queries.size(1), queries.size(2), values.size(3)});
    AttentionOutputs<T> outputs;
    outputs.context = context.view();
    attention_forward(problem, outputs);
    return context;
  }

  // Feeds chunks of the given sizes, again and again, through a cache.
  Tensor<T, 4> in_chunks(std::initializer_list<Index> sizes) const {
    const Index seq = queries.size(2);
    KvCache<T> cache({queries.size(0), keys.size(1), seq, queries.size(3), values.size(3)});
    Tensor<T, 4> context({queries.size(0), queries.size(1), seq, values.size(3)});
    Index at = 0;
    for (std::size_t n = 0; at < seq; ++n) {
      const Index end = std::min(seq, at + sizes.begin()[n % sizes.size()]);
      cache.append(keys.cview().slice(2, at, end), values.cview().slice(2, at, end));
      AttentionProblem<T> chunk = problem;
      chunk.inputs.queries = queries.cview().slice(2, at, end);
      AttentionOutputs<T> outputs;
      outputs.context = context.view().slice(2, at, end);
      cache.attend(chunk, outputs);
      at = end;
    }
    return context;
  }
};

template <class T>
void expect_equal_in_any_chunks(Index seq) {
  for (Isa isa : available_isas()) {
    if (isa == Isa::kCanonical && seq > 300) continue;
    force_isa(isa);
    const Decoding<T> decoding(2, 4, 2, seq, 33, 20);
    const Tensor<T, 4> expected = decoding.all_at_once();
    for (std::initializer_list<Index> sizes : {std::initializer_list<Index>{1}, {7}, {200, 1, 1, 65}, {256}}) {
      const Tensor<T, 4> got = decoding.in_chunks(sizes);
      EXPECT_EQ(0, std::memcmp(expected.data(), got.data(), sizeof(T) * static_cast<std::size_t>(got.elements())))
          << isa_name(isa) << ", chunks of " << *sizes.begin();
    }
  }
  force_isa(std::nullopt);
}

TEST(KvCache, ChunksOfAnySizeAndSingleTokensEqualOnePassBitForBit) {
  expect_equal_in_any_chunks<float>(530);
  expect_equal_in_any_chunks<double>(270);
}

TEST(KvCache, SixteenBitStorageEqualsOnePassBitForBit) {
  expect_equal_in_any_chunks<bfloat16>(270);
  expect_equal_in_any_chunks<float16>(270);
}

TEST(KvCache, AWindowAndSinksSeeTheSameThroughTheCache) {
  Decoding<float> decoding(1, 2, 1, 600, 16, 16);
  const float sinks[] = {0.5F, -1.0F};
  decoding.problem.visibility.window_left = 100;
  decoding.problem.rule.sinks = {sinks, {2}};
  const Tensor<float, 4> expected = decoding.all_at_once(), got = decoding.in_chunks({64, 3});
  EXPECT_EQ(0, std::memcmp(expected.data(), got.data(), sizeof(float) * static_cast<std::size_t>(got.elements())));
}

TEST(KvCache, ThreadsThatSplitTheKeysChangeNoBit) {
  const Decoding<float> decoding(1, 4, 1, 3000, 32, 32);
  Tensor<float, 4> expected;
  for (int count : {1, 2, 3, 8}) {
    set_num_threads(count);
    KvCache<float> cache({1, 1, 4000, 32, 32});
    cache.append(decoding.keys.cview(), decoding.values.cview());
    AttentionProblem<float> last = decoding.problem;
    last.inputs.queries = decoding.queries.cview().slice(2, 2999, 3000);
    Tensor<float, 4> context({1, 4, 1, 32});
    AttentionOutputs<float> outputs;
    outputs.context = context.view();
    cache.attend(last, outputs);
    if (count == 1) {
      expected = context;
    } else {
      EXPECT_EQ(0, std::memcmp(expected.data(), context.data(), sizeof(float) * 128)) << count << " threads";
    }
  }
  set_num_threads(2);
}

TEST(KvCache, EachEntryHasItsOwnLength) {
  const Decoding<float> decoding(2, 2, 2, 40, 8, 8);
  KvCache<float> cache({2, 2, 64, 8, 8});
  const Index counts[] = {40, 13};
  cache.append(decoding.keys.cview(), decoding.values.cview(), counts);
  EXPECT_EQ(cache.lengths()[1], 13);
  AttentionProblem<float> last = decoding.problem;
  last.inputs.queries = decoding.queries.cview().slice(2, 12, 13);
  Tensor<float, 4> context({2, 2, 1, 8});
  AttentionOutputs<float> outputs;
  outputs.context = context.view();
  cache.attend(last, outputs);
  const Tensor<float, 4> expected = decoding.all_at_once();
  for (Index h = 0; h < 2; ++h) {
    for (Index d = 0; d < 8; ++d) EXPECT_EQ(context(1, h, 0, d), expected(1, h, 12, d));
  }
}

TEST(KvCache, TruncatedTokensAreForgottenNaNIncluded) {
  Decoding<float> decoding(1, 1, 1, 20, 4, 4);
  const Tensor<float, 4> expected = decoding.all_at_once();
  KvCache<float> cache({1, 1, 300, 4, 4});
  cache.append(decoding.keys.cview().slice(2, 0, 10), decoding.values.cview().slice(2, 0, 10));
  Tensor<float, 4> poison({1, 1, 5, 4});
  poison.fill(std::numeric_limits<float>::quiet_NaN());
  cache.append(poison.cview(), poison.cview());
  cache.truncate(10);
  cache.append(decoding.keys.cview().slice(2, 10, 12), decoding.values.cview().slice(2, 10, 12));
  AttentionProblem<float> last = decoding.problem;
  last.inputs.queries = decoding.queries.cview().slice(2, 11, 12);
  Tensor<float, 4> context({1, 1, 1, 4});
  AttentionOutputs<float> outputs;
  outputs.context = context.view();
  cache.attend(last, outputs);
  for (Index d = 0; d < 4; ++d) EXPECT_EQ(context(0, 0, 0, d), expected(0, 0, 11, d));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(KvCache, RefusesWhatDoesNotFitAndWritesNothing) {
  const Decoding<float> decoding(1, 1, 1, 20, 4, 4);
  KvCache<float> cache({1, 1, 30, 4, 4});
  cache.append(decoding.keys.cview(), decoding.values.cview());
  EXPECT_EQ(message_of([&] { cache.append(decoding.keys.cview(), decoding.values.cview()); }),
            "KvCache.append: capacity=30 does not hold 20 + 20 tokens at batch entry 0");
  const Decoding<float> other(2, 1, 1, 3, 4, 4);
  EXPECT_EQ(message_of([&] { cache.append(other.keys.cview(), other.values.cview()); }),
            "KvCache.append: keys must be (batch=1, kv_heads=1, tokens, head_dim=4), got (2, 1, 3, 4)");
  EXPECT_EQ(message_of([&] { cache.truncate(-1); }), "KvCache.truncate: length must be >= 0, got -1");
  EXPECT_EQ(message_of([] { KvCache<float>({1, 1, -5, 4, 4}); }), "KvCache: capacity must be >= 0, got -5");
  EXPECT_EQ(cache.lengths()[0], 20);
}

TEST(KvCache, AttendNamesItselfInEveryMessageOnEveryInstructionSet) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    const Decoding<float> decoding(1, 2, 2, 20, 4, 4);
    KvCache<float> cache({1, 2, 30, 4, 4});
    cache.append(decoding.keys.cview(), decoding.values.cview());
    Tensor<float, 4> queries({1, 2, 3, 4}), context({1, 2, 3, 4}), narrow({1, 2, 3, 3});
    Tensor<float, 3> short_rows({1, 2, 2});
    const auto message = [&](const TensorView<const float, 4>& q, const AttentionOutputs<float>& outputs) {
      AttentionProblem<float> problem;
      problem.inputs.queries = q;
      return message_of([&] { cache.attend(problem, outputs); });
    };
    AttentionOutputs<float> outputs;
    outputs.context = context.view();
    EXPECT_EQ(message(narrow.cview(), outputs),
              "KvCache.attend: queries must be (batch=1, heads, seq_q, head_dim=4), got (1, 2, 3, 3)");
    EXPECT_EQ(message(queries.cview().slice(1, 0, 1), outputs),
              "KvCache.attend: heads=1 is not divisible by kv_heads=2; nearest valid kv_heads: 1");
    outputs.logsumexp = short_rows.view();
    EXPECT_EQ(message(queries.cview(), outputs),
              "KvCache.attend: logsumexp must be (batch=1, heads=2, seq_q=3), got (1, 2, 2)");
    outputs.context = narrow.view();
    EXPECT_EQ(message(queries.cview(), outputs),
              "KvCache.attend: context must be (batch=1, heads=2, seq_q=3, v_head_dim=4), got (1, 2, 3, 3)");
  }
  force_isa(std::nullopt);
}

}  // namespace
}  // namespace headwise
