// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/adamw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/kernels/adamw_step.h"
#include "headwise/models/row_tiles.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

// Elements [first, first + count) of one parameter: one task.
struct Tile {
  std::size_t parameter;
  Index first, count;
};

template <class T>
std::vector<Tile> tiles_of(std::span<const Parameter<T>> parameters) {
  std::vector<Tile> tiles;
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const Index elements = parameters[n].elements();
    for (Index first = 0; first < elements; first += kTileElements) {
      tiles.push_back({n, first, std::min(kTileElements, elements - first)});
    }
  }
  return tiles;
}

// base^exponent by products alone, so that every machine has the same.
double power(double base, Index exponent) {
  double result = 1;
  for (double square = base; exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 == 1) result *= square;
  }
  return result;
}

void check_rates(const AdamwConfig& config) {
  const auto check = [](const char* name, double value, bool good, const char* rule) {
    if (!good) throw ArgumentError(fmt::format("Adamw: {} must be {}, got {}", name, rule, value));
  };
  check("beta1", config.beta1, config.beta1 >= 0 && config.beta1 < 1, "in [0, 1)");
  check("beta2", config.beta2, config.beta2 >= 0 && config.beta2 < 1, "in [0, 1)");
  check("eps", config.eps, config.eps > 0 && std::isfinite(config.eps), "a finite number > 0");
  const bool decays = config.weight_decay >= 0 && std::isfinite(config.weight_decay);
  check("weight_decay", config.weight_decay, decays, "a finite number >= 0");
}

}  // namespace

template <class T>
Adamw<T>::Adamw(std::vector<Parameter<T>> parameters, const AdamwConfig& config)
    : parameters_(std::move(parameters)), config_(config) {
  check_rates(config);
  for (const Parameter<T>& parameter : parameters_) {
    if (parameter.gradient == nullptr) throw ArgumentError("Adamw: " + parameter.name + " has no gradient");
    first_.emplace_back(static_cast<std::size_t>(parameter.elements()));
    second_.emplace_back(static_cast<std::size_t>(parameter.elements()));
  }
}

template <class T>
void Adamw<T>::step(Index step, double learning_rate, double gradient_scale, const Execution& execution) {
  const double correction1 = 1 - power(config_.beta1, step), correction2 = 1 - power(config_.beta2, step);
  const std::vector<Tile> tiles = tiles_of<T>(parameters_);
  const auto run = adamw_functions_for<T>(chosen_isa()).step;
  run_tasks(execution, static_cast<Index>(tiles.size()), [&](Index task, int) {
    const Tile& tile = tiles[task];
    const Parameter<T>& parameter = parameters_[tile.parameter];
    const double decay = parameter.shape.size() >= 2 ? config_.weight_decay : 0;
    run({parameter.value + tile.first, parameter.gradient + tile.first, first_[tile.parameter].data() + tile.first,
         second_[tile.parameter].data() + tile.first, tile.count, static_cast<T>(gradient_scale),
         static_cast<T>(config_.beta1), static_cast<T>(config_.beta2), static_cast<T>(1 - learning_rate * decay),
         static_cast<T>(learning_rate / correction1), static_cast<T>(1 / std::sqrt(correction2)),
         static_cast<T>(config_.eps)});
  });
}

template <class T>
std::vector<Parameter<T>> Adamw<T>::with_values(const std::string& prefix, std::vector<std::vector<T>>& values) {
  std::vector<Parameter<T>> result = parameters_;
  for (std::size_t n = 0; n < result.size(); ++n) {
    result[n].name = prefix + result[n].name;
    result[n].value = values[n].data();
    result[n].gradient = nullptr;
  }
  return result;
}

template <class T>
std::vector<Parameter<T>> Adamw<T>::first_moments(const std::string& prefix) {
  return with_values(prefix, first_);
}
template <class T>
std::vector<Parameter<T>> Adamw<T>::second_moments(const std::string& prefix) {
  return with_values(prefix, second_);
}

template <class T>
double gradient_norm(std::span<const Parameter<T>> parameters, const Execution& execution) {
  const std::vector<Tile> tiles = tiles_of(parameters);
  std::vector<double> sums(tiles.size());
  const auto run = adamw_functions_for<T>(chosen_isa()).sum_squares;
  run_tasks(execution, static_cast<Index>(tiles.size()), [&](Index task, int) {
    const Tile& tile = tiles[task];
    sums[task] = run(parameters[tile.parameter].gradient + tile.first, tile.count);
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

double clip_scale(double norm, double limit) { return limit == 0 ? 1 : std::min(1.0, limit / (norm + 1e-6)); }

template class Adamw<float>;
template class Adamw<double>;
template HEADWISE_EXPORT double gradient_norm(std::span<const Parameter<float>>, const Execution&);
template HEADWISE_EXPORT double gradient_norm(std::span<const Parameter<double>>, const Execution&);

}  // namespace headwise
