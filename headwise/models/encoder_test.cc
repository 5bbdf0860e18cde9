// SPDX-License-Identifier: Apache-2.0
// A small random encoder against the same model written out token by token, in double, with its parameters looked up by
// name.
#include "headwise/models/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/encoder.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::random_encoder;
using testing::Sample;
using Vector = std::vector<double>;

// The model in plain loops, one sequence at a time.
class PlainEncoder {
 public:
  PlainEncoder(Encoder<double> encoder) : config_(encoder.config()) {
    for (const auto& p : encoder.parameters()) values_[p.name].assign(p.values().begin(), p.values().end());
  }

  // Hidden states after each layer; weights_[layer][head][i][j] afterwards.
  std::vector<std::vector<Vector>> run(const std::vector<Index>& ids, const std::vector<Index>& types) {
    std::vector<Vector> hidden;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Vector sum(config_.hidden);
      for (Index d = 0; d < config_.hidden; ++d) {
        sum[d] = at("embeddings.word_embeddings.weight", ids[i], d) +
                 at("embeddings.position_embeddings.weight", static_cast<Index>(i), d) +
                 at("embeddings.token_type_embeddings.weight", types[i], d);
      }
      hidden.push_back(normalized(sum, "embeddings.LayerNorm"));
    }
    std::vector<std::vector<Vector>> states;
    weights_.clear();
    for (Index layer = 0; layer < config_.layers; ++layer) {
      const std::string name = "encoder.layer." + std::to_string(layer) + ".";
      const std::vector<Vector> context = attention(hidden, name + "attention.self.");
      for (std::size_t i = 0; i < hidden.size(); ++i) {
        Vector attended = linear(context[i], name + "attention.output.dense");
        for (Index d = 0; d < config_.hidden; ++d) attended[d] += hidden[i][d];
        attended = normalized(attended, name + "attention.output.LayerNorm");
        Vector wide = linear(attended, name + "intermediate.dense");
        for (double& value : wide) value = value * 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
        Vector out = linear(wide, name + "output.dense");
        for (Index d = 0; d < config_.hidden; ++d) out[d] += attended[d];
        hidden[i] = normalized(out, name + "output.LayerNorm");
      }
      states.push_back(hidden);
    }
    return states;
  }

  std::vector<std::vector<std::vector<Vector>>> weights_;

 private:
  double at(const std::string& name, Index row, Index column) {
    return values_.at(name)[row * config_.hidden + column];
  }
  Vector linear(const Vector& x, const std::string& name) {
    const Vector& weight = values_.at(name + ".weight");
    Vector out = values_.at(name + ".bias");
    for (std::size_t o = 0; o < out.size(); ++o) {
      for (std::size_t i = 0; i < x.size(); ++i) out[o] += x[i] * weight[o * x.size() + i];
    }
    return out;
  }
  Vector normalized(const Vector& x, const std::string& name) {
    double mean = 0, variance = 0;
    for (double value : x) mean += value / static_cast<double>(x.size());
    for (double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
    Vector out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      out[i] = (x[i] - mean) / std::sqrt(variance + config_.layer_norm_eps) * values_.at(name + ".weight")[i] +
               values_.at(name + ".bias")[i];
    }
    return out;
  }
  std::vector<Vector> attention(const std::vector<Vector>& hidden, const std::string& name) {
    const Index width = config_.hidden / config_.heads;
    std::vector<Vector> queries, keys, values, context(hidden.size(), Vector(config_.hidden));
    for (const Vector& x : hidden) {
      queries.push_back(linear(x, name + "query"));
      keys.push_back(linear(x, name + "key"));
      values.push_back(linear(x, name + "value"));
    }
    auto& weights = weights_.emplace_back(config_.heads, std::vector<Vector>(hidden.size(), Vector(hidden.size())));
    for (Index h = 0; h < config_.heads; ++h) {
      for (std::size_t i = 0; i < hidden.size(); ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < hidden.size(); ++j) {
          double score = 0;
          for (Index d = h * width; d < (h + 1) * width; ++d) score += queries[i][d] * keys[j][d];
          weights[h][i][j] = std::exp(score / std::sqrt(static_cast<double>(width)));
          sum += weights[h][i][j];
        }
        for (std::size_t j = 0; j < hidden.size(); ++j) {
          weights[h][i][j] /= sum;
          for (Index d = h * width; d < (h + 1) * width; ++d) context[i][d] += weights[h][i][j] * values[j][d];
        }
      }
    }
    return context;
  }

  EncoderConfig config_;
  std::map<std::string, Vector> values_;
};

template <class T>
class EncoderTest : public ::testing::Test {};
using WorkingTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EncoderTest, WorkingTypes);

TYPED_TEST(EncoderTest, agrees_with_the_written_out_model_in_every_layer_and_gives_zero_at_padding) {
  using T = TypeParam;
  const double tolerance = sizeof(T) == 4 ? 3e-6 : 1e-13;
  const Encoder<T> encoder = random_encoder<T>();
  const Sample sample;
  std::vector<Tensor<T, 4>> weights(2, Tensor<T, 4>(Shape<4>{3, 2, 5, 5}));
  std::vector<Tensor<T, 3>> states(2, Tensor<T, 3>(Shape<3>{3, 5, 6})), entropy(2, Tensor<T, 3>(Shape<3>{3, 2, 5}));
  std::vector<LayerTrace<T>> traces(2);
  for (Index layer = 0; layer < 2; ++layer) {
    traces[layer].layer = layer;
    traces[layer].hidden = states[layer].view();
    traces[layer].attention.weights = weights[layer].view();
    traces[layer].attention.statistics.entropy = entropy[layer].view();
  }
  const Tensor<T, 3> hidden = encoder.forward(sample.inputs(), traces);
  EXPECT_TRUE(testing::same_bits(hidden, states[1]));
  PlainEncoder plain(random_encoder<double>());
  for (Index b = 0; b < 3; ++b) {
    const auto expected = plain.run(sample.row(sample.ids, b), sample.row(sample.types, b));
    const Index length = sample.lengths[b];
    for (Index layer = 0; layer < 2; ++layer) {
      for (Index i = 0; i < 5; ++i) {
        for (Index d = 0; d < 6; ++d) {
          EXPECT_NEAR(states[layer](b, i, d), i < length ? expected[layer][i][d] : 0.0, i < length ? tolerance : 0);
        }
        for (Index h = 0; h < 2; ++h) {
          double uncertainty = 0;
          for (Index j = 0; j < 5; ++j) {
            const bool real = i < length && j < length;
            const double weight = real ? plain.weights_[layer][h][i][j] : 0.0;
            EXPECT_NEAR(weights[layer](b, h, i, j), weight, real ? tolerance : 0);
            if (real) uncertainty -= weight * std::log(weight);
          }
          EXPECT_NEAR(entropy[layer](b, h, i), uncertainty, 5 * tolerance);
        }
      }
    }
  }
}

TYPED_TEST(EncoderTest, gives_a_sequence_the_same_bits_alone_and_padded_among_others) {
  using T = TypeParam;
  const Encoder<T> encoder = random_encoder<T>();
  const Sample sample;
  const Tensor<T, 3> together = encoder.forward(sample.inputs());
  for (Index b = 0; b < 2; ++b) {
    const Index length = sample.lengths[b];
    const auto alone = [&](const Tensor<std::int64_t, 2>& t) {
      return t.cview().slice(0, b, b + 1).slice(1, 0, length);
    };
    const Tensor<T, 3> single = encoder.forward({alone(sample.ids), {}, alone(sample.types)});
    EXPECT_TRUE(testing::same_bits(single, Tensor<T, 3>(together.cview().slice(0, b, b + 1).slice(1, 0, length))));
  }
}

TYPED_TEST(EncoderTest, takes_every_type_as_zero_where_none_is_given) {
  using T = TypeParam;
  const Encoder<T> encoder = random_encoder<T>();
  Sample sample;
  const Tensor<T, 3> typed = encoder.forward(sample.inputs());
  EncoderInputs inputs = sample.inputs();
  inputs.token_types = {};
  const Tensor<T, 3> untyped = encoder.forward(inputs);
  EXPECT_FALSE(testing::same_bits(typed, untyped));
  sample.types.fill(0);
  EXPECT_TRUE(testing::same_bits(encoder.forward(sample.inputs()), untyped));
}

TYPED_TEST(EncoderTest, hands_out_queries_and_keys_that_make_its_weights) {
  using T = TypeParam;
  const Encoder<T> encoder = random_encoder<T>();
  const Sample sample;
  Tensor<T, 4> queries(Shape<4>{3, 2, 5, 3}), keys(Shape<4>{3, 2, 5, 3}), weights(Shape<4>{3, 2, 5, 5});
  LayerTrace<T> trace;
  trace.layer = 1;
  trace.attention.queries = queries.view();
  trace.attention.keys = keys.view();
  trace.attention.weights = weights.view();
  encoder.forward(sample.inputs(), std::span<const LayerTrace<T>>(&trace, 1));
  const auto score = [&](Index i, Index j) {
    double dot = 0;
    for (Index d = 0; d < 3; ++d)
      dot += static_cast<double>(queries(1, 1, i, d)) * static_cast<double>(keys(1, 1, j, d));
    return dot / std::sqrt(3.0);
  };
  for (Index j = 1; j < 3; ++j) {
    EXPECT_NEAR(weights(1, 1, 2, j) / weights(1, 1, 2, 0), std::exp(score(2, j) - score(2, 0)), 1e-4);
  }
  EXPECT_EQ(queries(1, 1, 3, 0), 0);  // padding
  EXPECT_EQ(keys(1, 1, 4, 2), 0);
}

}  // namespace
}  // namespace headwise
