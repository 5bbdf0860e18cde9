// SPDX-License-Identifier: Apache-2.0
// Initial weights by name, drawn as the named library draws them.
#ifndef HEADWISE_LAYERS_INITIALIZATION_H_
#define HEADWISE_LAYERS_INITIALIZATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "headwise/runtime/random.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

enum class Initialization : std::uint8_t {
  kTorchLinear,  // "torch_linear": nn.Linear's own, equal to torch.manual_seed(seed) and the same constructors
  kTorchMha,     // "torch_mha": nn.MultiheadAttention's: xavier on the stacked input projection, biases zero
  kGpt2,         // "gpt2": normal with deviation 0.02, biases zero
};

// Throws ArgumentError that lists the names.
Initialization initialization_by_name(std::string_view who, std::string_view name);
std::string_view initialization_name(Initialization initialization);

// The given seed, or a fresh one from the system.
std::uint64_t seed_or_fresh(std::optional<std::uint64_t> seed);

// nn.Linear.reset_parameters: the weight uniform in +-bound by kaiming_uniform(a=sqrt(5)), then the bias (which may be
// empty) uniform in +-1/sqrt(fan_in).
template <class T>
void draw_torch_linear(TorchGenerator& generator, Index fan_in, std::span<T> weight, std::span<T> bias);

// xavier_uniform with gain 1.
template <class T>
void draw_xavier_uniform(TorchGenerator& generator, Index fan_in, Index fan_out, std::span<T> weight);

// normal with mean 0 and deviation 0.02.
template <class T>
void draw_gpt2(TorchGenerator& generator, std::span<T> weight);

#define HEADWISE_INITIALIZATION_EXTERN(T)                                                     \
  extern template void draw_torch_linear(TorchGenerator&, Index, std::span<T>, std::span<T>); \
  extern template void draw_xavier_uniform(TorchGenerator&, Index, Index, std::span<T>);      \
  extern template void draw_gpt2(TorchGenerator&, std::span<T>);
HEADWISE_INITIALIZATION_EXTERN(float)
HEADWISE_INITIALIZATION_EXTERN(double)
#undef HEADWISE_INITIALIZATION_EXTERN

}  // namespace headwise

#endif  // HEADWISE_LAYERS_INITIALIZATION_H_
