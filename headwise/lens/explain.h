// SPDX-License-Identifier: Apache-2.0
// One input walked through one attention layer: what each step does to shapes, memory and numbers, and what would
// happen if a step were left out.
#ifndef HEADWISE_LENS_EXPLAIN_H_
#define HEADWISE_LENS_EXPLAIN_H_

#include <string>
#include <vector>

#include "headwise/layers/attention_layer.h"
#include "headwise/lens/shape_path.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

struct ExplainTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // a text for each column; the first one names the row
};

struct ExplainSection {
  std::string id;     // "split"
  std::string title;  // "Split the columns among the heads"
  std::vector<std::string> paragraphs;
  std::vector<ExplainTable> tables;
  std::vector<std::string> conclusions;  // below the tables
};

struct ExplainOptions {
  Index token = 0;      // whose numbers are shown
  bool what_if = true;  // also the steps done wrongly
};

struct Explanation {
  AttentionConfig config;
  AttentionSizes sizes;
  Index parameters = 0;
  Index token = 0;
  std::vector<ShapeStep> path;
  std::vector<ExplainSection> steps, what_ifs;
  ExplainSection widths;      // the readings of d_out
  Tensor<double, 3> scores;   // (heads, seq, seq), scaled
  Tensor<double, 3> weights;  // (heads, seq, seq)
  Tensor<double, 2> out;      // (seq, d_out), recomputed in plain loops and doubles
  double difference = 0;      // largest |out - the layer's own output|
};

// The layer of the default example: a table of 6 columns in 3 heads as in the question, with d_in=4 so that d_in and
// d_out differ, causal, with an output projection; the weights of seed 123.
template <class T>
AttentionLayer<T> example_layer();
// (seq, d_in): small numbers of two digits from a fixed seed.
template <class T>
Tensor<T, 2> example_input(Index seq, Index d_in);

// x: (seq, d_in), 1..64 tokens. Throws ArgumentError "explain: ..." and as AttentionLayer::forward does.
template <class T>
Explanation explain_layer(const AttentionLayer<T>& layer, TensorView<const T, 2> x, const ExplainOptions& options);

#define HEADWISE_EXPLAIN_EXTERN(T)                          \
  extern template AttentionLayer<T> example_layer();        \
  extern template Tensor<T, 2> example_input(Index, Index); \
  extern template Explanation explain_layer(const AttentionLayer<T>&, TensorView<const T, 2>, const ExplainOptions&);
HEADWISE_EXPLAIN_EXTERN(float)
HEADWISE_EXPLAIN_EXTERN(double)
#undef HEADWISE_EXPLAIN_EXTERN

}  // namespace headwise

#endif  // HEADWISE_LENS_EXPLAIN_H_
