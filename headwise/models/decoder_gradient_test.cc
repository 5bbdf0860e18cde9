// SPDX-License-Identifier: Apache-2.0
// Every gradient of the decoder, whole and part by part, against central differences in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "headwise/models/adamw.h"
#include "headwise/models/cross_entropy.h"
#include "headwise/models/decoder.h"
#include "headwise/models/dropout.h"
#include "headwise/models/embedding.h"
#include "headwise/models/gelu.h"
#include "headwise/tensor/errors.h"
#include "tests/support/tensors.h"

namespace headwise {
namespace {

using testing::random_tensor;

// d loss / d values[n] by a step to either side.
double difference(double& value, const std::function<double()>& loss) {
  const double kept = value, step = 1e-5;
  value = kept + step;
  const double above = loss();
  value = kept - step;
  const double below = loss();
  value = kept;
  return (above - below) / (2 * step);
}

DecoderConfig small_config() {
  DecoderConfig config;
  config.layers = 2;
  config.hidden = 6;
  config.heads = 2;
  config.vocab = 7;
  config.positions = 5;
  config.intermediate = 10;
  return config;
}

// Away from the flat start: every parameter matters.
void scatter(Decoder<double>& decoder) {
  std::uint64_t seed = 1;
  for (const Parameter<double>& parameter : decoder.parameters()) {
    TorchGenerator(seed++).fill_uniform(parameter.values(), -0.6, 0.6);
  }
}

Tensor<std::int64_t, 2> tokens(std::uint64_t seed) {
  Tensor<std::int64_t, 2> result(Shape<2>{2, 4});
  TorchGenerator generator(seed);
  for (Index n = 0; n < 8; ++n) result.data()[n] = generator.next32() % 7;
  return result;
}

void expect_gradients_of_loss(DecoderConfig config, bool training) {
  config.dropout = training ? 0.3 : 0;
  Decoder<double> decoder(config, Gradients::kStored);
  scatter(decoder);
  const Tensor<std::int64_t, 2> ids = tokens(5), targets = tokens(6);
  const DecoderDropout dropout{training, 11, 3};
  DecoderActivations<double> saved;
  decoder.zero_grad();
  decoder.loss_and_gradients(ids.cview(), targets.cview(), dropout, saved);
  // Without gradients of its own, so that those of the first stay.
  Decoder<double> probe(config);
  probe.load(decoder.state());
  const auto loss = [&] {
    Tensor<double, 3> logits = probe.forward(ids.cview(), dropout);
    const std::span<const std::int64_t> flat(targets.data(), 8);
    return cross_entropy<double>({logits.data(), {8, config.vocab}}, flat, 0) / 8;
  };
  std::vector<Parameter<double>> wanted = decoder.parameters(), varied = probe.parameters();
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    double largest = 0;
    for (Index n = 0; n < wanted[p].elements(); ++n) {
      const double expected = difference(varied[p].value[n], loss);
      largest = std::max(largest, std::abs(expected));
      EXPECT_NEAR(wanted[p].gradient[n], expected, 2e-9) << wanted[p].name << " element " << n;
    }
    EXPECT_GT(largest, 1e-6) << wanted[p].name << " is never used";
  }
}

TEST(DecoderGradient, is_that_of_central_differences_for_every_parameter) {
  expect_gradients_of_loss(small_config(), false);
}

TEST(DecoderGradient, is_that_of_central_differences_with_every_dropout_at_work) {
  expect_gradients_of_loss(small_config(), true);
}

TEST(DecoderGradient, is_that_of_central_differences_untied_without_biases_with_the_tanh_gelu) {
  DecoderConfig config = small_config();
  config.tied = config.bias = false;
  config.activation = "gelu_tanh";
  expect_gradients_of_loss(config, false);
}

TEST(DecoderGradient, of_given_logit_gradients_is_that_of_the_loss_they_come_from) {
  DecoderConfig config = small_config();
  Decoder<double> decoder(config, Gradients::kStored), again(config, Gradients::kStored);
  scatter(decoder);
  again.load(decoder.state());
  const Tensor<std::int64_t, 2> ids = tokens(5), targets = tokens(6);
  DecoderActivations<double> saved;
  decoder.loss_and_gradients(ids.cview(), targets.cview(), {}, saved);
  Tensor<double, 3> logits = again.forward(ids.cview(), {}, &saved);
  cross_entropy<double>({logits.data(), {8, config.vocab}}, std::span<const std::int64_t>(targets.data(), 8), 0.125);
  again.backward(saved, logits.cview());
  const std::vector<Parameter<double>> a = decoder.parameters(), b = again.parameters();
  for (std::size_t p = 0; p < a.size(); ++p) {
    for (Index n = 0; n < a[p].elements(); ++n) ASSERT_EQ(a[p].gradient[n], b[p].gradient[n]) << a[p].name;
  }
}

TEST(DecoderGradient, needs_a_forward_and_stored_gradients) {
  Decoder<double> without(small_config()), with(small_config(), Gradients::kStored);
  DecoderActivations<double> saved;
  const Tensor<double, 3> grad(Shape<3>{2, 4, 7});
  EXPECT_EQ(testing::error_text<StateError>([&] { with.backward(saved, grad.cview()); }),
            "Decoder.backward: the activations hold no forward");
  without.forward(tokens(1).cview(), {}, &saved);
  EXPECT_EQ(testing::error_text<StateError>([&] { without.backward(saved, grad.cview()); }),
            "Decoder.backward: the decoder was built without gradients");
  const Tensor<double, 3> narrow(Shape<3>{2, 4, 6});
  EXPECT_EQ(testing::error_text<ShapeError>([&] { with.backward(saved, narrow.cview()); }),
            "Decoder.backward: grad_logits must be (batch=2, seq=4, vocab=7), got (2, 4, 6)");
}

TEST(GeluGradient, is_that_of_central_differences_in_both_forms) {
  for (const char* form : {"gelu", "gelu_tanh"}) {
    Tensor<double, 2> x = testing::matrix<double>({{-9, -3, -1, -0.2, 0, 0.3}, {1e-3, 0.7, 1.5, 4, 12, -40}});
    Tensor<double, 2> grad(x.shape()), y(x.shape());
    grad.fill(2);
    gelu_backward<double>(form, x.cview(), grad.view());
    for (Index n = 0; n < 12; ++n) {
      const auto value = [&] {
        gelu_forward<double>(form, x.cview(), y.view());
        return 2 * y.data()[n];
      };
      EXPECT_NEAR(grad.data()[n], difference(x.data()[n], value), 1e-9) << form << " " << x.data()[n];
    }
  }
}

TEST(LayerNormGradient, is_that_of_central_differences_and_adds_to_what_is_there) {
  LayerNorm<double> norm(19, 1e-5, true, Gradients::kStored);
  std::vector<Parameter<double>> parameters;
  norm.append_parameters("norm", parameters);
  TorchGenerator(3).fill_uniform(parameters[0].values(), -1, 1);
  // More rows than one partial sum takes.
  Tensor<double, 2> x = random_tensor<double, 2>({70, 19}, 1), y(x.shape()), grad_x(x.shape());
  const Tensor<double, 2> grad_y = random_tensor<double, 2>({70, 19}, 2);
  grad_x.fill(5);
  LayerNormSaved saved;
  norm.forward(x.cview(), y.view(), &saved, {});
  norm.backward(x.cview(), saved, grad_y.cview(), grad_x.view(), {});
  const auto loss = [&] {
    norm.forward(x.cview(), y.view(), nullptr, {});
    double sum = 0;
    for (Index n = 0; n < y.elements(); ++n) sum += y.data()[n] * grad_y.data()[n];
    return sum;
  };
  for (Index n = 0; n < x.elements(); n += 7) {
    EXPECT_NEAR(grad_x.data()[n] - 5, difference(x.data()[n], loss), 1e-8);
  }
  for (const Parameter<double>& parameter : parameters) {
    for (Index n = 0; n < 19; ++n) EXPECT_NEAR(parameter.gradient[n], difference(parameter.value[n], loss), 1e-8);
  }
}

TEST(CrossEntropyGradient, is_that_of_central_differences) {
  const Tensor<double, 2> logits = random_tensor<double, 2>({3, 21}, 4);
  const std::vector<std::int64_t> targets{0, 20, 7};
  Tensor<double, 2> grad = logits, varied = logits;
  const double sum = cross_entropy<double>(grad.view(), targets, 0.5);
  const auto loss = [&] {
    Tensor<double, 2> spent = varied;
    return cross_entropy<double>(spent.view(), targets, 0) * 0.5;
  };
  EXPECT_EQ(loss() * 2, sum);
  for (Index n = 0; n < 63; ++n) EXPECT_NEAR(grad.data()[n], difference(varied.data()[n], loss), 1e-10);
}

TEST(EmbeddingGradient, adds_each_tokens_gradient_to_its_word_and_its_position) {
  Tensor<std::int64_t, 2> ids(Shape<2>{2, 3});
  for (Index n = 0; n < 6; ++n) ids.data()[n] = n % 2;
  const Tensor<double, 2> grad = random_tensor<double, 2>({6, 40}, 4);
  Tensor<double, 2> words(Shape<2>{2, 40}), positions(Shape<2>{3, 40});
  words.fill(1);
  embed_backward<double>(ids.cview(), grad.cview(), words.view(), positions.view());
  for (Index d = 0; d < 40; ++d) {
    EXPECT_EQ(words(1, d), 1 + grad(1, d) + grad(3, d) + grad(5, d));
    EXPECT_EQ(positions(2, d), grad(2, d) + grad(5, d));
  }
}

}  // namespace
}  // namespace headwise
