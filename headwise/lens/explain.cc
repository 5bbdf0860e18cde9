// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/lens/explain_parts.h"
#include "headwise/runtime/random.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

constexpr const char* kWho = "explain";
constexpr Index kMostTokens = 64;

template <class T>
void check_subject(const AttentionLayer<T>& layer, TensorView<const T, 2> x, Index token) {
  check_shape(kWho, "x", x, {{"seq"}, {"d_in", layer.config().d_in}});
  if (x.size(0) < 1 || x.size(0) > kMostTokens) {
    throw ArgumentError(fmt::format("{}: x must have 1..{} tokens, got {}", kWho, kMostTokens, x.size(0)));
  }
  if (token < 0 || token >= x.size(0)) {
    throw ArgumentError(fmt::format("{}: token must be in 0..{}, got {}", kWho, x.size(0) - 1, token));
  }
}

}  // namespace

template <class T>
AttentionLayer<T> example_layer() {
  return MultiHeadAttention<T>(4, 6, {.num_heads = 3, .seed = 123});
}

template <class T>
Tensor<T, 2> example_input(Index seq, Index d_in) {
  Tensor<T, 2> x(Shape<2>{seq, d_in});
  TorchGenerator generator(7);
  for (Index i = 0; i < x.elements(); ++i) {
    x.data()[i] = static_cast<T>(std::round(400 * static_cast<double>(generator.uniform24()) - 200) / 100);
  }
  return x;
}

template <class T>
Explanation explain_layer(const AttentionLayer<T>& layer, TensorView<const T, 2> x, const ExplainOptions& options) {
  check_subject(layer, x, options.token);
  const Index seq = x.size(0);
  const Tensor<T, 2> dense(x);
  const Tensor<T, 3> own = layer.forward(TensorView<const T, 3>(dense.data(), {1, seq, x.size(1)}));
  Tensor<double, 2> wide(x.shape());
  copy_elements(x, wide.view());
  const PlainLayer plain = plain_layer(layer);
  PlainRun run = run_plain(plain, wide.cview(), seq);
  const ExplainSubject subject{layer.config(), plain, run, wide.cview(), options.token};
  Explanation result;
  result.config = layer.config();
  result.sizes = layer.sizes();
  result.parameters = layer.parameter_count();
  result.token = options.token;
  result.path = shape_path(layer.config(), 1, seq);
  result.steps = explain_steps(subject);
  if (options.what_if) result.what_ifs = explain_what_ifs(subject);
  result.widths = explain_widths<T>(layer, dense.cview());
  for (Index i = 0; i < own.elements(); ++i) {
    result.difference = std::max(result.difference, std::abs(static_cast<double>(own.data()[i]) - run.out.data()[i]));
  }
  result.scores = std::move(run.scores);
  result.weights = std::move(run.weights);
  result.out = std::move(run.out);
  return result;
}

#define HEADWISE_EXPLAIN(T)                                                                            \
  template HEADWISE_EXPORT AttentionLayer<T> example_layer();                                          \
  template HEADWISE_EXPORT Tensor<T, 2> example_input(Index, Index);                                   \
  template HEADWISE_EXPORT Explanation explain_layer(const AttentionLayer<T>&, TensorView<const T, 2>, \
                                                     const ExplainOptions&);
HEADWISE_EXPLAIN(float)
HEADWISE_EXPLAIN(double)
#undef HEADWISE_EXPLAIN

}  // namespace headwise
