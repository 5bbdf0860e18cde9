// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/plain_attention.h"

#include <algorithm>
#include <cmath>

#include "headwise/layers/rotary_rule.h"

namespace headwise {
namespace {

// The numbers of one block (seq, heads * head_dim) by head.
class HeadReader {
 public:
  HeadReader(Tensor<double, 2>& block, Index heads, bool straight)
      : block_(block), heads_(heads), width_(block.size(1) / heads), straight_(straight) {}
  double& operator()(Index head, Index token, Index d) const {
    const Index flat = straight_ ? (head * block_.size(0) + token) * width_ + d : (token * heads_ + head) * width_ + d;
    return block_.data()[flat];
  }

 private:
  Tensor<double, 2>& block_;
  Index heads_, width_;
  bool straight_;
};

Tensor<double, 2> columns_of(const Tensor<double, 2>& stacked, RowRange range) {
  return Tensor<double, 2>(stacked.cview().slice(1, range.first, range.first + range.count));
}

void normalize(const Tensor<double, 1>& weight, double eps, Tensor<double, 2>& block) {
  const Index width = weight.size(0);
  for (Index token = 0; token < block.size(0); ++token) {
    for (Index first = 0; first < block.size(1); first += width) {
      double squares = 0;
      for (Index i = 0; i < width; ++i) squares += block(token, first + i) * block(token, first + i);
      const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
      for (Index i = 0; i < width; ++i) block(token, first + i) *= factor * weight(i);
    }
  }
}

void turn(const RotaryRule& rule, Index head_dim, Tensor<double, 2>& block) {
  const std::vector<double> frequencies = rotary_frequencies(rule, head_dim);
  const Index pairs = static_cast<Index>(frequencies.size());
  const bool half = rule.style == RotaryStyle::kHalfSplit;
  for (Index token = 0; token < block.size(0); ++token) {
    for (Index first = 0; first < block.size(1); first += head_dim) {
      for (Index pair = 0; pair < pairs; ++pair) {
        double& a = block(token, first + (half ? pair : 2 * pair));
        double& b = block(token, first + (half ? pair + pairs : 2 * pair + 1));
        const double angle = static_cast<double>(token) * frequencies[static_cast<std::size_t>(pair)];
        const double cosine = std::cos(angle) * rotary_amplitude(rule), sine = std::sin(angle) * rotary_amplitude(rule);
        const double turned = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = turned;
      }
    }
  }
}

// Softmax along one line of `count` numbers, `stride` apart; hidden ones become 0, and a line that sees nothing is 0.
template <class Seen>
void softmax_line(double* first, Index count, Index stride, const Seen& seen) {
  double most = -INFINITY, sum = 0;
  for (Index i = 0; i < count; ++i) {
    if (seen(i)) most = std::max(most, first[i * stride]);
  }
  for (Index i = 0; i < count; ++i) {
    double& value = first[i * stride];
    value = seen(i) ? std::exp(value - most) : 0;
    sum += value;
  }
  if (sum == 0) return;
  for (Index i = 0; i < count; ++i) first[i * stride] /= sum;
}

struct Positions {
  const PlainLayer& layer;
  const AttentionRecipe& recipe;
  Index offset;
  bool sees(Index query, Index key) const {
    if (recipe.mask == MaskStep::kMissing) return true;
    const bool seen = plain_sees(layer, query + offset, key, recipe.window_shift);
    return recipe.mask == MaskStep::kInverted ? !seen : seen;
  }
};

void weigh(const Positions& positions, TensorView<double, 2> weights) {
  const AttentionRecipe& recipe = positions.recipe;
  const bool later = recipe.mask == MaskStep::kAfterSoftmax;
  const Index rows = weights.size(0), keys = weights.size(1);
  if (recipe.softmax_over_queries) {
    for (Index key = 0; key < keys; ++key) {
      softmax_line(&weights(0, key), rows, weights.stride(0),
                   [&](Index query) { return later || positions.sees(query, key); });
    }
  } else {
    for (Index query = 0; query < rows; ++query) {
      const auto seen = [&](Index key) { return later || positions.sees(query, key); };
      softmax_line(&weights(query, 0), keys, 1, seen);
      if (!recipe.softmax_twice) continue;
      softmax_line(&weights(query, 0), keys, 1, [&](Index key) { return recipe.second_softmax_sees_all || seen(key); });
    }
  }
  for (Index query = 0; later && query < rows; ++query) {
    for (Index key = 0; key < keys; ++key) {
      if (!positions.sees(query, key)) weights(query, key) = 0;
    }
  }
}

}  // namespace

bool plain_sees(const PlainLayer& layer, Index position, Index key, Index window_shift) {
  if (layer.causal && key > position) return false;
  return !layer.window_left || position - key <= *layer.window_left + window_shift;
}

Tensor<double, 2> plain_linear(TensorView<const double, 2> x, const Tensor<double, 2>& weight,
                               const Tensor<double, 1>& bias) {
  Tensor<double, 2> y(Shape<2>{x.size(0), weight.size(0)});
  for (Index row = 0; row < y.size(0); ++row) {
    for (Index o = 0; o < y.size(1); ++o) {
      double sum = bias ? bias(o) : 0;
      for (Index i = 0; i < x.size(1); ++i) sum += x(row, i) * weight(o, i);
      y(row, o) = sum;
    }
  }
  return y;
}

template <class T>
PlainLayer plain_layer(const AttentionLayer<T>& layer) {
  AttentionLayer<T> source = layer;  // biases are handed out for writing only
  PlainLayer plain;
  plain.sizes = layer.sizes();
  plain.d_in = layer.config().d_in;
  plain.d_out = layer.config().d_out;
  plain.causal = layer.config().causal;
  plain.window_left = layer.config().window_left;
  plain.rotary = layer.config().rotary;
  plain.norm = layer.config().query_key_norm;
  for (const Parameter<T>& parameter : source.parameters()) {
    if (parameter.name != "q_norm.weight" && parameter.name != "k_norm.weight") continue;
    Tensor<double, 1>& target = parameter.name == "q_norm.weight" ? plain.query_norm : plain.key_norm;
    target = Tensor<double, 1>(Shape<1>{parameter.elements()});
    std::copy_n(parameter.value, parameter.elements(), target.data());
  }
  const auto take = [](Linear<T>& from, Tensor<double, 2>& weight, Tensor<double, 1>& bias) {
    weight = Tensor<double, 2>(Shape<2>{from.d_out(), from.d_in()});
    copy_elements(std::as_const(from).weight(), weight.view());
    const auto values = from.bias_values(from.all_rows());
    if (values.empty()) return;
    bias = Tensor<double, 1>(Shape<1>{from.d_out()});
    std::copy(values.begin(), values.end(), bias.data());
  };
  take(source.qkv(), plain.stacked, plain.stacked_bias);
  if (layer.config().out_proj) take(source.out_proj(), plain.out, plain.out_bias);
  return plain;
}

PlainRun run_plain(const PlainLayer& layer, TensorView<const double, 2> x, Index seq_q, const AttentionRecipe& recipe) {
  const AttentionSizes& sizes = layer.sizes;
  const Index seq = x.size(0), heads = sizes.heads, width = sizes.head_dim, first = seq - seq_q;
  const Tensor<double, 2> projected = plain_linear(x, layer.stacked, layer.stacked_bias);
  PlainRun run;
  run.queries = columns_of(projected, sizes.query_rows());
  run.keys = columns_of(projected, sizes.key_rows());
  run.values = columns_of(projected, sizes.value_rows());
  if (layer.norm) {
    normalize(layer.query_norm, layer.norm->eps, run.queries);
    normalize(layer.key_norm, layer.norm->eps, run.keys);
  }
  if (layer.rotary) {
    turn(*layer.rotary, width, run.queries);
    turn(*layer.rotary, width, run.keys);
  }
  run.scores = Tensor<double, 3>(Shape<3>{heads, seq_q, seq});
  run.merged = Tensor<double, 2>(Shape<2>{seq_q, sizes.query_width()});
  const HeadReader queries(run.queries, heads, recipe.straight_split), merged(run.merged, heads, recipe.straight_merge);
  const HeadReader keys(run.keys, sizes.kv_heads, recipe.straight_split);
  const HeadReader values(run.values, sizes.kv_heads, recipe.straight_split);
  const double scale = recipe.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
  const auto kv_head = [&](Index head) {
    return recipe.kv_heads_interleaved ? head % sizes.kv_heads : head / (heads / sizes.kv_heads);
  };
  for (Index h = 0; h < heads; ++h) {
    for (Index i = 0; i < seq_q; ++i) {
      for (Index j = 0; j < seq; ++j) {
        double sum = 0;
        for (Index d = 0; d < width; ++d) sum += queries(h, first + i, d) * keys(kv_head(h), j, d);
        run.scores(h, i, j) = sum * scale;
      }
    }
  }
  run.weights = run.scores;
  const Positions positions{layer, recipe, recipe.rows_from_the_start ? 0 : first};
  for (Index h = 0; h < heads; ++h) {
    weigh(positions, run.weights.view().select(0, h));
    for (Index i = 0; i < seq_q; ++i) {
      for (Index d = 0; d < width; ++d) {
        double sum = 0;
        for (Index j = 0; j < seq; ++j) sum += run.weights(h, i, j) * values(kv_head(h), j, d);
        merged(h, i, d) = sum;
      }
    }
  }
  run.out = layer.out ? plain_linear(run.merged.cview(), layer.out, layer.out_bias) : run.merged;
  return run;
}

template PlainLayer plain_layer(const AttentionLayer<float>&);
template PlainLayer plain_layer(const AttentionLayer<double>&);

}  // namespace headwise
