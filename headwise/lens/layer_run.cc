// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/layer_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

constexpr Index kMostTopKeys = 4;

template <class T>
TensorView<T, 3>* place_of(AttentionStatistics<T>& statistics, std::string_view name) {
  const std::pair<std::string_view, TensorView<T, 3>*> places[] = {
      {"entropy", &statistics.entropy}, {"max_weight", &statistics.max_weight}, {"distance", &statistics.distance},
      {"self", &statistics.self},       {"previous", &statistics.previous},     {"next", &statistics.next},
      {"first", &statistics.first},     {"received", &statistics.received}};
  for (const auto& [known, place] : places) {
    if (known == name) return place;
  }
  throw ArgumentError(
      fmt::format("run: there is no statistic '{}'; the names are {}", name, fmt::join(kStatisticNames, ", ")));
}

template <class T, int Rank>
NamedTensor named(std::string_view name, const Tensor<T, Rank>& tensor, bool squeeze) {
  return {std::string(name),
          kDTypeOf<T>,
          {tensor.shape().begin() + (squeeze ? 1 : 0), tensor.shape().end()},
          reinterpret_cast<const std::byte*>(tensor.data())};
}

}  // namespace

bool statistic_needs_positions(std::string_view name) {
  return name == "distance" || name == "self" || name == "previous" || name == "next";
}

template <class T>
const Tensor<T, 3>* LayerRun<T>::find(std::string_view name) const {
  for (const auto& [known, tensor] : statistics) {
    if (known == name) return &tensor;
  }
  return nullptr;
}

template <class T>
LayerRun<T> run_layer(const AttentionLayer<T>& layer, TensorView<const T, 3> x, TensorView<const T, 3> keys_values,
                      const ForwardOptions<T>& options, const LayerRunRequest& request, const Execution& execution) {
  const Index batch = x.size(0), heads = layer.sizes().heads, seq_q = x.size(1);
  const Index seq_kv = keys_values ? keys_values.size(1) : seq_q;
  LayerRun<T> run;
  LayerOutputs<T> extras;
  run.statistics.reserve(request.statistics.size());
  for (const std::string& name : request.statistics) {
    if (name == "top_keys") {
      run.top_keys = Tensor<std::int64_t, 4>({batch, heads, seq_q, std::min(kMostTopKeys, seq_kv)});
      extras.statistics.top_keys = run.top_keys.view();
      continue;
    }
    TensorView<T, 3>* place = place_of(extras.statistics, name);
    run.statistics.emplace_back(name, Tensor<T, 3>({batch, heads, name == "received" ? seq_kv : seq_q}));
    *place = run.statistics.back().second.view();
  }
  if (request.weights) {
    run.weights = Tensor<T, 4>({batch, heads, seq_q, seq_kv});
    extras.weights = run.weights.view();
  }
  run.out = layer.forward(x, keys_values, options, nullptr, extras, execution);
  return run;
}

template <class T>
std::vector<double> head_means(const Tensor<T, 3>& statistic, const Tensor<T, 3>& max_weight) {
  check_shape("head_means", "max_weight", max_weight.cview(),
              {{"batch", statistic.size(0)}, {"heads", statistic.size(1)}, {"seq_q", statistic.size(2)}});
  std::vector<double> means;
  const Index batch = statistic.size(0), rows = statistic.size(2);
  for (Index head = 0; head < statistic.size(1); ++head) {
    double total = 0;
    Index seeing = 0;
    for (Index entry = 0; entry < batch; ++entry) {
      for (Index row = 0; row < rows; ++row) {
        if (max_weight(entry, head, row) == 0) continue;
        total += static_cast<double>(statistic(entry, head, row));
        ++seeing;
      }
    }
    means.push_back(seeing == 0 ? std::nan("") : total / static_cast<double>(seeing));
  }
  return means;
}

template <class T>
std::vector<NamedTensor> run_arrays(const LayerRun<T>& run, const LayerRunRequest& request, bool squeeze) {
  std::vector<NamedTensor> arrays{named("out", run.out, squeeze)};
  if (request.weights) arrays.push_back(named("weights", run.weights, squeeze));
  for (const std::string& name : request.statistics) {
    const Tensor<T, 3>* statistic = run.find(name);
    arrays.push_back(statistic != nullptr ? named(name, *statistic, squeeze) : named(name, run.top_keys, squeeze));
  }
  return arrays;
}

#define HEADWISE_LAYER_RUN(T)                                                                        \
  template struct LayerRun<T>;                                                                       \
  template HEADWISE_EXPORT LayerRun<T> run_layer(const AttentionLayer<T>&, TensorView<const T, 3>,   \
                                                 TensorView<const T, 3>, const ForwardOptions<T>&,   \
                                                 const LayerRunRequest&, const Execution&);          \
  template HEADWISE_EXPORT std::vector<double> head_means(const Tensor<T, 3>&, const Tensor<T, 3>&); \
  template HEADWISE_EXPORT std::vector<NamedTensor> run_arrays(const LayerRun<T>&, const LayerRunRequest&, bool);
HEADWISE_LAYER_RUN(float)
HEADWISE_LAYER_RUN(double)
#undef HEADWISE_LAYER_RUN

}  // namespace headwise
