// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/initialization.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

constexpr std::pair<Initialization, std::string_view> kNames[] = {{Initialization::kTorchLinear, "torch_linear"},
                                                                  {Initialization::kTorchMha, "torch_mha"},
                                                                  {Initialization::kGpt2, "gpt2"}};

}  // namespace

Initialization initialization_by_name(std::string_view who, std::string_view name) {
  std::string known;
  for (const auto& [initialization, text] : kNames) {
    if (text == name) return initialization;
    known += (known.empty() ? "\"" : ", \"") + std::string(text) + "\"";
  }
  throw ArgumentError(std::string(who) + ": init must be one of " + known + ", got \"" + std::string(name) + "\"");
}

std::string_view initialization_name(Initialization initialization) {
  for (const auto& [candidate, text] : kNames) {
    if (candidate == initialization) return text;
  }
  return "unknown";
}

std::uint64_t seed_or_fresh(std::optional<std::uint64_t> seed) {
  // 32 bits, so that the seed can be given to torch.manual_seed, whose generator takes no more of it.
  return seed ? *seed : std::random_device{}();
}

template <class T>
void draw_torch_linear(TorchGenerator& generator, Index fan_in, std::span<T> weight, std::span<T> bias) {
  // kaiming_uniform_(a=sqrt(5)), operation by operation: the bound's last bit is part of "equal to torch".
  const double slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1.0 + slope * slope));
  const double deviation = gain / std::sqrt(static_cast<double>(fan_in));
  const double bound = std::sqrt(3.0) * deviation;
  generator.fill_uniform(weight, -bound, bound);
  const double bias_bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  generator.fill_uniform(bias, -bias_bound, bias_bound);
}

template <class T>
void draw_xavier_uniform(TorchGenerator& generator, Index fan_in, Index fan_out, std::span<T> weight) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(fan_in + fan_out));
  const double bound = std::sqrt(3.0) * deviation;
  generator.fill_uniform(weight, -bound, bound);
}

template <class T>
void draw_gpt2(TorchGenerator& generator, std::span<T> weight) {
  generator.fill_normal(weight, 0.0, 0.02);
}

template HEADWISE_EXPORT void draw_torch_linear(TorchGenerator&, Index, std::span<float>, std::span<float>);
template HEADWISE_EXPORT void draw_torch_linear(TorchGenerator&, Index, std::span<double>, std::span<double>);
template HEADWISE_EXPORT void draw_xavier_uniform(TorchGenerator&, Index, Index, std::span<float>);
template HEADWISE_EXPORT void draw_xavier_uniform(TorchGenerator&, Index, Index, std::span<double>);
template HEADWISE_EXPORT void draw_gpt2(TorchGenerator&, std::span<float>);
template HEADWISE_EXPORT void draw_gpt2(TorchGenerator&, std::span<double>);

}  // namespace headwise
