// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/kernels/exponential.h"
#include "headwise/models/random_streams.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// The k likeliest tokens in rising order; ties go to the smaller token.
std::vector<std::int64_t> candidates(std::span<const float> logits, Index top_k) {
  std::vector<std::int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (top_k == 0 || top_k >= static_cast<Index>(tokens.size())) return tokens;
  std::stable_sort(tokens.begin(), tokens.end(), [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
  tokens.resize(static_cast<std::size_t>(top_k));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace

void check_sampling(const Sampling& sampling) {
  if (!(sampling.temperature >= 0 && std::isfinite(sampling.temperature))) {
    throw ArgumentError(
        fmt::format("generate: temperature must be a finite number >= 0, got {}", sampling.temperature));
  }
  if (sampling.top_k < 0) throw ArgumentError(fmt::format("generate: top_k must be >= 0, got {}", sampling.top_k));
}

std::int64_t sample_token(std::span<const float> logits, const Sampling& sampling, std::uint64_t index) {
  for (const float logit : logits) {
    if (!std::isfinite(logit)) throw StateError("generate: the model gives logits that are not finite");
  }
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (sampling.temperature == 0) return likeliest - logits.begin();
  const std::vector<std::int64_t> tokens = candidates(logits, sampling.top_k);
  std::vector<double> sums;  // of the weights up to each candidate
  double sum = 0;
  for (const std::int64_t token : tokens) {
    const double below = static_cast<double>(logits[token]) - static_cast<double>(*likeliest);
    sums.push_back(sum += canonical_exp(below / sampling.temperature));
  }
  const auto words = draw_from(RandomStream::kSampling, sampling.seed, index, 0);
  const double drawn = unit_interval(words[0], words[1]) * sum;
  const auto found = std::upper_bound(sums.begin(), sums.end() - 1, drawn);
  return tokens[static_cast<std::size_t>(found - sums.begin())];
}

void generate(const Decoder<float>& decoder, std::span<const std::int64_t> prompt, Index count,
              const Sampling& sampling, FunctionRef<void(std::int64_t)> take, const Execution& execution) {
  check_sampling(sampling);
  if (prompt.empty()) throw ArgumentError("generate: the prompt must have at least one token");
  if (count < 0) throw ArgumentError(fmt::format("generate: count must be >= 0, got {}", count));
  const auto positions = static_cast<std::size_t>(decoder.config().positions);
  std::vector<std::int64_t> tokens(prompt.begin(), prompt.end());
  DecoderState<float> state = decoder.start();
  const auto feed = [&](std::size_t newest) {
    const std::span<const std::int64_t> last = std::span(tokens).last(newest);
    return decoder.decode({last.data(), {1, static_cast<Index>(newest)}}, state, execution);
  };
  Tensor<float, 2> logits = feed(std::min(tokens.size(), positions));
  for (Index n = 0; n < count; ++n) {
    if (execution.cancelled()) throw Cancelled();
    const std::span<const float> row(logits.data(), static_cast<std::size_t>(logits.size(1)));
    tokens.push_back(sample_token(row, sampling, static_cast<std::uint64_t>(n)));
    take(tokens.back());
    if (n + 1 == count) break;
    const bool full = state.length() == decoder.config().positions;
    if (full) state.truncate(0);
    logits = feed(full ? std::max<std::size_t>(1, positions / 2) : 1);
  }
}

}  // namespace headwise
