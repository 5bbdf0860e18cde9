// SPDX-License-Identifier: Apache-2.0
// The parts an explanation is put together from. Not installed.
#ifndef HEADWISE_LENS_EXPLAIN_PARTS_H_
#define HEADWISE_LENS_EXPLAIN_PARTS_H_

#include <string>
#include <vector>

#include "headwise/lens/explain.h"
#include "headwise/lens/plain_attention.h"

namespace headwise {

// What every part reads.
struct ExplainSubject {
  const AttentionConfig& config;
  const PlainLayer& layer;
  const PlainRun& run;  // rightly
  TensorView<const double, 2> x;
  Index token;
};

// "0.4310", and "-" where there is nothing.
std::string number_text(double value);
// "q1" for column 0.
std::string column_name(const char* letter, Index column);
// At most so many heads, columns or tokens are shown.
inline constexpr Index kMostShown = 8;

std::vector<ExplainSection> explain_steps(const ExplainSubject& subject);
std::vector<ExplainSection> explain_what_ifs(const ExplainSubject& subject);

// Both readings of d_out, with parameter counts, and the wrapper beside the weight-split layer.
template <class T>
ExplainSection explain_widths(const AttentionLayer<T>& layer, TensorView<const T, 2> x);

extern template ExplainSection explain_widths(const AttentionLayer<float>&, TensorView<const float, 2>);
extern template ExplainSection explain_widths(const AttentionLayer<double>&, TensorView<const double, 2>);

}  // namespace headwise

#endif  // HEADWISE_LENS_EXPLAIN_PARTS_H_
