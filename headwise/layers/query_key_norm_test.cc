// SPDX-License-Identifier: Apache-2.0
// Norms of queries and keys: against the plain formula, against central differences, their bits, their files' names.
#include "headwise/layers/query_key_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::error_text;
using testing::random_tensor;
using testing::same_bits;

MultiHeadAttentionOptions normalized(bool whole, bool rotary) {
  MultiHeadAttentionOptions options;
  options.num_heads = 4;
  options.num_kv_heads = 2;
  options.head_dim = 6;
  options.qkv_bias = true;
  options.seed = 3;
  options.query_key_norm = QueryKeyNorm{whole, 1e-3};
  if (rotary) options.rotary = RotaryRule{};
  return options;
}

// Weights that are not 1, so that their place in the formula shows.
template <class T>
MultiHeadAttention<T> normalized_layer(bool whole, bool rotary) {
  MultiHeadAttention<T> layer(10, 8, normalized(whole, rotary));
  for (const Parameter<T>& parameter : layer.parameters()) {
    if (parameter.name.find("norm") == std::string::npos) continue;
    for (Index i = 0; i < parameter.elements(); ++i) parameter.value[i] = static_cast<T>(0.5 + 0.1 * i);
  }
  return layer;
}

TEST(QueryKeyNorm, IsTheFormulaOverEachHeadOrOverAll) {
  for (const bool whole : {false, true}) {
    const MultiHeadAttention<double> layer = normalized_layer<double>(whole, false);
    MultiHeadAttentionOptions options = normalized(whole, false);
    options.query_key_norm.reset();
    MultiHeadAttention<double> plain(10, 8, options);
    const Tensor<double, 3> x = random_tensor<double, 3>({2, 5, 10}, 1);
    Tensor<double, 4> got({2, 4, 5, 6}), before({2, 4, 5, 6});
    LayerOutputs<double> extras, plain_extras;
    extras.queries = got.view();
    plain_extras.queries = before.view();
    layer.forward(x.view(), {}, {}, nullptr, extras);
    plain.forward(x.view(), {}, {}, nullptr, plain_extras);
    for (Index b = 0; b < 2; ++b) {
      for (Index t = 0; t < 5; ++t) {
        for (Index h = 0; h < 4; ++h) {
          double squares = 0;
          for (Index other = whole ? 0 : h; other < (whole ? 4 : h + 1); ++other) {
            for (Index d = 0; d < 6; ++d) squares += before(b, other, t, d) * before(b, other, t, d);
          }
          const double factor = 1 / std::sqrt(squares / (whole ? 24 : 6) + 1e-3);
          for (Index d = 0; d < 6; ++d) {
            const double weight = 0.5 + 0.1 * static_cast<double>(whole ? h * 6 + d : d);
            ASSERT_NEAR(got(b, h, t, d), before(b, h, t, d) * factor * weight, 1e-14);
          }
        }
      }
    }
  }
}

double summed(const MultiHeadAttention<double>& layer, const Tensor<double, 3>& x, const Tensor<double, 3>& other,
              const Tensor<double, 3>& grad) {
  const Tensor<double, 3> out = layer.forward(x.view(), other ? other.view() : TensorView<const double, 3>{});
  double sum = 0;
  for (Index i = 0; i < out.elements(); ++i) sum += out.data()[i] * grad.data()[i];
  return sum;
}

// Central differences of every parameter, of x and of what keys and values come from.
void check_gradients(MultiHeadAttention<double>& layer, Tensor<double, 3> x, Tensor<double, 3> other) {
  const Tensor<double, 3> grad = random_tensor<double, 3>({2, x.size(1), 8}, 5);
  Activations<double> saved;
  const TensorView<const double, 3> source = other ? other.view() : TensorView<const double, 3>{};
  layer.forward(x.view(), source, {}, &saved);
  Tensor<double, 3> grad_x(x.shape()), grad_other;
  if (other) grad_other = Tensor<double, 3>(other.shape());
  layer.backward(saved, grad.view(), grad_x.view(), grad_other ? grad_other.view() : TensorView<double, 3>{});
  constexpr double kStep = 1e-5;
  const auto check = [&](double* value, double gradient, const std::string& what) {
    const double kept = *value;
    *value = kept + kStep;
    const double above = summed(layer, x, other, grad);
    *value = kept - kStep;
    const double below = summed(layer, x, other, grad);
    *value = kept;
    ASSERT_NEAR((above - below) / (2 * kStep), gradient, 1e-7) << what;
  };
  for (const Parameter<double>& parameter : layer.parameters()) {
    for (Index i = 0; i < parameter.elements(); i += 1 + parameter.elements() / 40) {
      check(parameter.value + i, parameter.gradient[i], parameter.name);
    }
  }
  for (Index i = 0; i < x.elements(); i += 7) check(x.data() + i, grad_x.data()[i], "x");
  for (Index i = 0; other && i < other.elements(); i += 7) check(other.data() + i, grad_other.data()[i], "keys_values");
}

TEST(QueryKeyNorm, GradientsAreThoseOfCentralDifferences) {
  for (const bool whole : {false, true}) {
    for (const bool rotary : {false, true}) {
      MultiHeadAttention<double> layer = normalized_layer<double>(whole, rotary);
      check_gradients(layer, random_tensor<double, 3>({2, 5, 10}, 1), {});
    }
    MultiHeadAttentionOptions options = normalized(whole, false);
    options.causal = false;
    MultiHeadAttention<double> cross(10, 8, options);
    check_gradients(cross, random_tensor<double, 3>({2, 5, 10}, 1), random_tensor<double, 3>({2, 7, 10}, 2));
  }
}

TEST(QueryKeyNorm, GivesTheSameBitsOnEveryInstructionSetAndForAnyThreads) {
  const Tensor<float, 3> x = random_tensor<float, 3>({3, 67, 10}, 1), grad = random_tensor<float, 3>({3, 67, 8}, 2);
  std::vector<Tensor<float, 3>> outs;
  std::vector<std::vector<float>> gradients;
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    for (const int count : {1, 3}) {
      set_num_threads(count);
      MultiHeadAttention<float> layer = normalized_layer<float>(false, true);
      Activations<float> saved;
      Tensor<float, 3> grad_x(x.shape());
      outs.push_back(layer.forward(x.view(), {}, {}, &saved));
      layer.backward(saved, grad.view(), grad_x.view());
      outs.push_back(grad_x);
      std::vector<float> all;
      for (const Parameter<float>& parameter : layer.parameters()) {
        all.insert(all.end(), parameter.gradient, parameter.gradient + parameter.elements());
      }
      gradients.push_back(all);
    }
  }
  force_isa(std::nullopt);
  set_num_threads(2);
  for (std::size_t n = 2; n < outs.size(); ++n) EXPECT_TRUE(same_bits(outs[n], outs[n % 2])) << n;
  for (const auto& other : gradients) EXPECT_EQ(other, gradients.front());
}

TEST(QueryKeyNorm, RefusesWhatItCannotDo) {
  MultiHeadAttentionOptions options = normalized(false, false);
  options.query_key_norm->eps = -1;
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(10, 8, options); }),
            "MultiHeadAttention: query_key_norm eps must be at least 0 and finite, got -1");
  options = normalized(false, false);
  options.num_kv_heads.reset();
  EXPECT_EQ(error_text<ArgumentError>([&] { MultiHeadAttention<float>(10, 8, options).split(); }),
            "MultiHeadAttention.split: a wrapper has no norms");
  const MultiHeadAttention<float> layer(10, 8, normalized(true, false));
  EXPECT_EQ(layer.parameter_count(), 24 * 11 + 2 * 12 * 11 + 8 * 25 + 24 + 12);
}

}  // namespace
}  // namespace headwise
