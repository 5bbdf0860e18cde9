// SPDX-License-Identifier: Apache-2.0
// Which known mistake somebody's output of an attention layer shows, if any.
#ifndef HEADWISE_LENS_DIAGNOSE_H_
#define HEADWISE_LENS_DIAGNOSE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headwise/layers/attention_layer.h"

namespace headwise {

enum class Verdict : std::uint8_t {
  kRight,    // right within the rounding of 16-bit numbers, and no mistake is nearer by far
  kMistake,  // one known mistake, or several that give the same output here
  kNone,     // neither right nor any of the known mistakes
};

// "right", "mistake", "none".
std::string_view verdict_name(Verdict verdict);

struct MistakeDistance {
  std::string name;  // "no_head_axis"
  std::string what;  // what was done
  // Root mean square of the difference to what this mistake gives, in units of the right output's; of dropout, whose
  // output is another each time, how far the weights found in the output are from 0 or one factor. Not given where the
  // mistake cannot be made with this layer and input, makes no difference there, or cannot be told: `note` says which.
  std::optional<double> distance;
  std::string note;
};

struct Diagnosis {
  Verdict verdict = Verdict::kNone;
  std::vector<std::string> names;          // of the mistakes that fit equally well
  double right = 0;                        // distance to the right output, over what is finite
  Index not_finite = 0;                    // numbers of the given output that are NaN or infinite
  std::vector<MistakeDistance> distances;  // nearest first, then those without a distance
};

// x: (batch, seq, d_in); got: (batch, seq_q, d_out), of the last seq_q <= seq tokens of x, of whatever precision.
// Throws ShapeError and ArgumentError "diagnose: ...".
template <class T>
Diagnosis diagnose(const AttentionLayer<T>& layer, TensorView<const T, 3> x, TensorView<const double, 3> got);

extern template Diagnosis diagnose(const AttentionLayer<float>&, TensorView<const float, 3>,
                                   TensorView<const double, 3>);
extern template Diagnosis diagnose(const AttentionLayer<double>&, TensorView<const double, 3>,
                                   TensorView<const double, 3>);

}  // namespace headwise

#endif  // HEADWISE_LENS_DIAGNOSE_H_
