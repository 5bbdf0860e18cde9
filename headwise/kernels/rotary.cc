// SPDX-License-Identifier: Apache-2.0
#include "headwise/kernels/rotary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "headwise/kernels/exponential.h"
#include "headwise/kernels/row_statistics.h"
#include "headwise/runtime/run_tasks.h"
#include "headwise/runtime/scratch.h"

namespace headwise {
namespace {

constexpr Index kTokensATask = 16;

// Taylor on |r| <= pi / 4; the first term left out is below 2e-19.
double series(double first, double square, int from, int to) {
  double sum = 1;
  for (int n = to; n >= from; n -= 2) sum = std::fma(-square / static_cast<double>(n * (n - 1)), sum, 1.0);
  return first * sum;
}

// Sines, then cosines, of one position.
template <class T>
void fill_row(const RotaryTurns& turns, Index position, T* row) {
  const auto count = static_cast<Index>(turns.frequencies.size());
  for (Index pair = 0; pair < count; ++pair) {
    const SineCosine turn = turn_of(static_cast<double>(position), turns.frequencies[pair]);
    row[pair] = static_cast<T>((turns.backwards ? -turn.sine : turn.sine) * turns.amplitude);
    row[count + pair] = static_cast<T>(turn.cosine * turns.amplitude);
  }
}

template <class T>
void turn_head(T* head, Index step, Index pair_step, Index second, Index count, const T* sines, const T* cosines) {
  for (Index pair = 0; pair < count; ++pair) {
    T& a = head[pair * pair_step];
    T& b = head[pair * pair_step + second * step];
    const T left = a * cosines[pair] - b * sines[pair];
    b = b * cosines[pair] + a * sines[pair];
    a = left;
  }
}

}  // namespace

SineCosine turn_of(double position, double frequency) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1, kRound = 0x1.8p+52;
  constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
  // The angle is angle + rest exactly, and so is the first subtraction.
  const double angle = position * frequency, rest = std::fma(position, frequency, -angle);
  const double quarters = std::fma(angle, kTwoOverPi, kRound) - kRound;
  const double r = std::fma(-quarters, kHalfPiLow, std::fma(-quarters, kHalfPiHigh, angle)) + rest;
  const double sine = series(r, r * r, 3, 19), cosine = series(1, r * r, 2, 18);
  switch (static_cast<std::int64_t>(quarters) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

double natural_logarithm(double x) { return canonical_log(x); }

double falling_power(double base, double exponent) { return canonical_exp<double>(-(exponent * canonical_log(base))); }

template <class T>
void turn_pairs(TensorView<T, 4> x, const RotaryTurns& turns, const Execution& execution) {
  const Index batch = x.size(0), seq = x.size(1), heads = x.size(2), step = x.stride(3);
  const auto count = static_cast<Index>(turns.frequencies.size());
  const Index pair_step = turns.interleaved ? 2 * step : step, second = turns.interleaved ? 1 : count;
  const bool common = turns.offsets.size() == 1;
  run_tasks(execution, (seq + kTokensATask - 1) / kTokensATask, [&](Index task, int) {
    ScratchFrame frame;
    T* row = frame.take<T>(2 * count);
    for (Index t = task * kTokensATask; t < std::min(seq, (task + 1) * kTokensATask); ++t) {
      for (Index b = 0; b < batch; ++b) {
        if (b == 0 || !common) fill_row(turns, t + turns.offsets[common ? 0 : b], row);
        for (Index h = 0; h < heads; ++h) {
          T* head = x.data() + b * x.stride(0) + t * x.stride(1) + h * x.stride(2);
          turn_head(head, step, pair_step, second, count, row, row + count);
        }
      }
    }
  });
}

template void turn_pairs(TensorView<float, 4>, const RotaryTurns&, const Execution&);
template void turn_pairs(TensorView<double, 4>, const RotaryTurns&, const Execution&);

}  // namespace headwise
