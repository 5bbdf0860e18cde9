// SPDX-License-Identifier: Apache-2.0
// Cosine and sine by IEEE operations alone, where the C library's may differ between machines. Not installed.
#ifndef HEADWISE_MODELS_HALF_TURNS_H_
#define HEADWISE_MODELS_HALF_TURNS_H_

namespace headwise {

// cos(pi * x), x in [-1, 2], to about 2e-16.
inline double cos_half_turns(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (x < 0) x = -x;
  if (x > 1) x = 2 - x;
  const bool mirrored = x > 0.5;
  const double angle = kPi * (mirrored ? 1 - x : x), square = angle * angle;
  // Taylor up to angle^22, innermost first.
  double sum = 1;
  for (int n = 22; n >= 2; n -= 2) sum = 1 - square / (n * (n - 1)) * sum;
  return mirrored ? -sum : sum;
}

// sin(pi * x), x in [0, 2].
inline double sin_half_turns(double x) { return cos_half_turns(x - 0.5); }

}  // namespace headwise

#endif  // HEADWISE_MODELS_HALF_TURNS_H_
