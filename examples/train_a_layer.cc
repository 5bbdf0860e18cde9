// SPDX-License-Identifier: Apache-2.0
// Trains one small attention layer, twice: with one head and with two, which have the same number of weights.
//
// Every token is asked for two things at once: the features of the token before it, and those of the first token of its
// sequence. A head has one softmax, so one place to look at; two heads look at both. Usage: train_a_layer [STEPS]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/runtime/random.h"

namespace {

using headwise::Index, headwise::Tensor;

constexpr Index kBatch = 32, kSeq = 12, kFeatures = 8;
constexpr Index kInput = kFeatures + kSeq;  // the features, then the position as one of kSeq ones
constexpr Index kOutput = 2 * kFeatures;

struct Batch {
  Tensor<float, 3> x{{kBatch, kSeq, kInput}};        // (batch, seq, d_in)
  Tensor<float, 3> target{{kBatch, kSeq, kOutput}};  // (batch, seq, d_out)
};

Batch draw_batch(headwise::TorchGenerator& random) {
  Batch batch;
  for (Index b = 0; b < kBatch; ++b) {
    for (Index i = 0; i < kSeq; ++i) {
      for (Index f = 0; f < kFeatures; ++f) batch.x(b, i, f) = 2 * random.uniform24() - 1;
      batch.x(b, i, kFeatures + i) = 1;
    }
    for (Index i = 0; i < kSeq; ++i) {
      for (Index f = 0; f < kFeatures; ++f) {
        batch.target(b, i, f) = batch.x(b, i == 0 ? 0 : i - 1, f);
        batch.target(b, i, kFeatures + f) = batch.x(b, 0, f);
      }
    }
  }
  return batch;
}

// The mean squared error; writes its gradient by `out` into grad_out.
double loss_of(const Tensor<float, 3>& out, const Tensor<float, 3>& target, Tensor<float, 3>& grad_out) {
  double sum = 0;
  const auto count = static_cast<double>(out.elements());
  for (Index i = 0; i < out.elements(); ++i) {
    const double error = static_cast<double>(out.data()[i]) - static_cast<double>(target.data()[i]);
    sum += error * error;
    grad_out.data()[i] = static_cast<float>(2 * error / count);
  }
  return sum / count;
}

// Adam (Kingma and Ba, 2015), for every parameter of a layer.
class Adam {
 public:
  explicit Adam(headwise::MultiHeadAttention<float>& layer) : parameters_(layer.parameters()) {
    for (const auto& parameter : parameters_) moments_.emplace_back(2 * parameter.elements(), 0.0F);
  }

  void step(float rate) {
    ++steps_;
    const float correct_mean = 1 - std::pow(0.9F, static_cast<float>(steps_));
    const float correct_square = 1 - std::pow(0.999F, static_cast<float>(steps_));
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      for (Index i = 0; i < parameters_[p].elements(); ++i) {
        const float gradient = parameters_[p].gradient[i];
        float& mean = moments_[p][2 * i];
        float& square = moments_[p][2 * i + 1];
        mean += 0.1F * (gradient - mean);
        square += 0.001F * (gradient * gradient - square);
        parameters_[p].value[i] -= rate * (mean / correct_mean) / (std::sqrt(square / correct_square) + 1e-8F);
      }
    }
  }

 private:
  std::vector<headwise::Parameter<float>> parameters_;
  std::vector<std::vector<float>> moments_;
  int steps_ = 0;
};

double train(Index num_heads, int steps) {
  headwise::MultiHeadAttention<float> layer(kInput, kOutput, {.num_heads = num_heads, .causal = true, .seed = 1});
  Adam adam(layer);
  headwise::TorchGenerator random(2);
  headwise::Activations<float> saved;  // what backward needs; its memory is used again in every step
  Tensor<float, 3> grad_out({kBatch, kSeq, kOutput});
  std::printf("%ld head%s, %ld weights\n", long(num_heads), num_heads == 1 ? "" : "s", long(layer.parameter_count()));
  double loss = 0;
  for (int step = 0; step <= steps; ++step) {
    const Batch batch = draw_batch(random);
    const Tensor<float, 3> out = layer.forward(batch.x.view(), {}, {}, &saved);
    loss = loss_of(out, batch.target, grad_out);
    if (step % (steps / 5) == 0) std::printf("  step %5d  loss %.4f\n", step, loss);
    layer.zero_grad();
    layer.backward(saved, grad_out.view(), /*grad_x=*/{});  // the input's gradient is not asked for
    adam.step(0.01F);
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (steps < 5) {
    std::fprintf(stderr, "usage: train_a_layer [STEPS, at least 5]\n");
    return 2;
  }
  const double one = train(1, steps);
  const double two = train(2, steps);
  std::printf("two heads come to %.4f of the loss of one\n", two / one);
}
