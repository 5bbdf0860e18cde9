// SPDX-License-Identifier: Apache-2.0
// Random attention problems with every option, awkward sizes, strided views and poisoned memory around each slice.
#ifndef HEADWISE_TESTS_RANDOM_PROBLEM_H_
#define HEADWISE_TESTS_RANDOM_PROBLEM_H_

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "headwise/kernels/attention.h"

namespace headwise::testing {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  Index pick(Index below) { return static_cast<Index>(engine_() % static_cast<std::uint64_t>(below)); }
  bool one_in(Index n) { return pick(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return *(values.begin() + pick(static_cast<Index>(values.size())));
  }
  double uniform(double from, double to) {
    return from + (to - from) * (static_cast<double>(engine_() >> 11) * 0x1p-53);
  }
  double normal() { return std::sqrt(-2 * std::log(1 - uniform(0, 1))) * std::cos(6.283185307179586 * uniform(0, 1)); }

 private:
  std::mt19937_64 engine_;
};

template <class T>
T poison() {
  if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else {
    return narrow<T>(std::numeric_limits<double>::quiet_NaN());
  }
}

// A view into a larger block full of poison: axes in a random memory order, gaps between rows.
template <class T, int Rank>
struct PoisonedTensor {
  std::unique_ptr<T[]> block;
  std::size_t count = 0;
  TensorView<T, Rank> view;

  PoisonedTensor() = default;
  PoisonedTensor(const Shape<Rank>& shape, Dice& dice, bool keep_last_axis) {
    int order[Rank];
    for (int axis = 0; axis < Rank; ++axis) order[axis] = axis;
    const int movable = keep_last_axis ? Rank - 1 : Rank;
    for (int axis = movable - 1; axis > 0; --axis) std::swap(order[axis], order[dice.pick(axis + 1)]);
    Shape<Rank> strides{};
    Index step = 1;
    for (int at = Rank - 1; at >= 0; --at) {
      strides[order[at]] = step;
      step *= shape[order[at]] + (dice.one_in(3) ? dice.pick(4) : 0);
    }
    const Index margin = 37;
    count = static_cast<std::size_t>(step + 2 * margin);
    block = std::make_unique<T[]>(count);
    for (std::size_t n = 0; n < count; ++n) block[n] = poison<T>();
    view = {block.get() + margin, shape, strides};
  }
};

template <class T, int Rank, class Make>
void fill(const TensorView<T, Rank>& view, const Make& make) {
  for (Index i = 0; i < view.size(0); ++i) {
    if constexpr (Rank == 1) {
      view(i) = make();
    } else {
      fill(view.select(0, i), make);
    }
  }
}

struct ProblemLimits {
  Index most_rows = 150;
  bool with_nan = true;
  bool with_dropout = true;
};

template <class T>
struct RandomProblem {
  using A = Accumulated<T>;
  PoisonedTensor<T, 4> queries, keys, values, bias, grad_context;
  PoisonedTensor<bool, 4> mask;
  std::vector<A> slopes, sinks;
  std::vector<Index> offsets, lengths;
  AttentionProblem<T> problem;
  AttentionShape shape;
  std::string description;

  RandomProblem(std::uint64_t seed, const ProblemLimits& limits) {
    Dice dice(seed);
    choose_shape(dice, limits);
    choose_values(dice);
    choose_rule(dice);
    choose_visibility(dice);
    if (limits.with_dropout && dice.one_in(3)) {
      problem.dropout = {dice.of({0.1, 0.5, 0.9}), static_cast<std::uint64_t>(dice.pick(1 << 30)),
                         static_cast<std::uint64_t>(dice.pick(5)), dice.pick(3), dice.pick(3)};
    }
    if (limits.with_nan && dice.one_in(4)) plant_non_finite(dice);
    description = "seed " + std::to_string(seed) + ": batch " + std::to_string(shape.batch) + " heads " +
                  std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " seq " +
                  std::to_string(shape.seq_q) + "x" + std::to_string(shape.seq_kv) + " head_dim " +
                  std::to_string(shape.head_dim) + "/" + std::to_string(shape.v_head_dim);
  }

 private:
  static T value(double x) { return narrow<T>(static_cast<A>(x)); }

  void choose_shape(Dice& dice, const ProblemLimits& limits) {
    const auto length = [&](Index most) {
      const Index n = dice.of<Index>({1, 2, 3, 15, 16, 17, 63, 64, 65, 96, 97, 127, 128, 129, 255, 256, 257, 300, 513});
      return dice.one_in(30) ? 0 : 1 + (n - 1) % most;
    };
    shape.kv_heads = dice.of<Index>({1, 1, 2, 3});
    shape.heads = shape.kv_heads * dice.of<Index>({1, 1, 2, 4});
    shape.batch = dice.of<Index>({1, 1, 2, 3});
    shape.seq_q = length(limits.most_rows);
    shape.seq_kv = dice.one_in(2) ? shape.seq_q : length(600);
    shape.head_dim = dice.of<Index>({1, 3, 8, 16, 17, 31, 32, 33, 64, 65});
    shape.v_head_dim = dice.one_in(2) ? shape.head_dim : dice.of<Index>({1, 5, 16, 24, 32, 48, 64, 70});
    if (dice.one_in(40)) shape.head_dim = 0;
  }

  void choose_values(Dice& dice) {
    const AttentionShape& s = shape;
    queries = {{s.batch, s.heads, s.seq_q, s.head_dim}, dice, dice.one_in(2)};
    keys = {{s.batch, s.kv_heads, s.seq_kv, s.head_dim}, dice, dice.one_in(2)};
    values = {{s.batch, s.kv_heads, s.seq_kv, s.v_head_dim}, dice, dice.one_in(2)};
    grad_context = {{s.batch, s.heads, s.seq_q, s.v_head_dim}, dice, dice.one_in(2)};
    const double size = dice.of({0.3, 1.0, 1.0, 4.0});
    fill(queries.view, [&] { return value(size * dice.normal()); });
    fill(keys.view, [&] { return value(dice.normal()); });
    fill(values.view, [&] { return value(dice.normal()); });
    fill(grad_context.view, [&] { return value(dice.normal()); });
    problem.inputs = {queries.view, keys.view, values.view};
  }

  void choose_rule(Dice& dice) {
    const AttentionShape& s = shape;
    if (dice.one_in(4)) problem.rule.scale = dice.of({0.0, 0.3, -0.5, 1.0});
    if (dice.one_in(4)) problem.rule.softcap = dice.of({0.5, 5.0, 30.0});
    const auto axis = [&](Index n) { return dice.one_in(3) ? Index{1} : n; };
    if (dice.one_in(3)) {
      bias = {{axis(s.batch), axis(s.heads), axis(s.seq_q), axis(s.seq_kv)}, dice, dice.one_in(2)};
      const double hidden = dice.of({0.0, 0.2, 0.9});
      fill(bias.view, [&] {
        if (dice.uniform(0, 1) < hidden) return value(-std::numeric_limits<double>::infinity());
        return value(dice.normal());
      });
      problem.rule.bias = bias.view;
    }
    if (dice.one_in(4)) {
      for (Index h = 0; h < s.heads; ++h) slopes.push_back(static_cast<A>(dice.uniform(0, 0.5)));
      problem.rule.alibi_slopes = {slopes.data(), {s.heads}};
    }
    if (dice.one_in(4)) {
      for (Index h = 0; h < s.heads; ++h) sinks.push_back(static_cast<A>(dice.normal()));
      problem.rule.sinks = {sinks.data(), {s.heads}};
    }
  }

  void choose_visibility(Dice& dice) {
    const AttentionShape& s = shape;
    Visibility& visibility = problem.visibility;
    visibility.causal = dice.one_in(2);
    if (dice.one_in(4)) visibility.window_left = dice.of<Index>({0, 1, 7, 40, 300});
    if (dice.one_in(5)) visibility.window_right = dice.of<Index>({0, 3, 50});
    if (dice.one_in(4)) {
      for (Index b = 0; b < s.batch; ++b) lengths.push_back(dice.one_in(5) ? 0 : dice.pick(s.seq_kv + 1));
      visibility.kv_lengths = lengths;
    }
    visibility.alignment = dice.of({Alignment::kUpperLeft, Alignment::kLowerRight, Alignment::kOffset});
    if (s.seq_q == s.seq_kv && dice.one_in(2)) visibility.alignment = Alignment::kSelf;
    if (visibility.alignment == Alignment::kOffset) {
      const Index count = dice.one_in(2) ? 1 : s.batch;
      for (Index b = 0; b < count; ++b) offsets.push_back(dice.pick(700) - 200);
      visibility.query_offset = offsets;
    }
    if (dice.one_in(3)) {
      const auto axis = [&](Index n) { return dice.one_in(3) ? Index{1} : n; };
      mask = {{axis(s.batch), axis(s.heads), axis(s.seq_q), axis(s.seq_kv)}, dice, dice.one_in(2)};
      const double kept = dice.of({0.02, 0.5, 0.95});
      fill(mask.view, [&] { return dice.uniform(0, 1) < kept; });
      visibility.mask = mask.view;
    }
  }

  // A few inf and NaN values anywhere: rules must keep hidden ones out of everything.
  void plant_non_finite(Dice& dice) {
    for (const TensorView<T, 4>& view : {queries.view, keys.view, values.view, grad_context.view}) {
      if (view.elements() == 0 || !dice.one_in(2)) continue;
      for (Index n = 0; n < 2; ++n) {
        T& place =
            view(dice.pick(view.size(0)), dice.pick(view.size(1)), dice.pick(view.size(2)), dice.pick(view.size(3)));
        place =
            value(dice.one_in(2) ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity());
      }
    }
  }
};

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_RANDOM_PROBLEM_H_
