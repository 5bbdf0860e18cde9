// SPDX-License-Identifier: Apache-2.0
// One forward of an attention layer with everything that can be seen of it, in memory of its own.
#ifndef HEADWISE_LENS_LAYER_RUN_H_
#define HEADWISE_LENS_LAYER_RUN_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/layers/attention_layer.h"
#include "headwise/tensor/named_tensor.h"
#include "headwise/tensor/tensor.h"

namespace headwise {

// The statistics of AttentionStatistics by name.
inline constexpr std::array<std::string_view, 9> kStatisticNames{
    "entropy", "max_weight", "top_keys", "distance", "self", "previous", "next", "first", "received"};

// Whether it is about where a query stands: then seq_q and seq_kv must agree or an alignment be given.
bool statistic_needs_positions(std::string_view name);

struct LayerRunRequest {
  bool weights = false;
  std::vector<std::string> statistics;  // of kStatisticNames, each once
};

template <class T>
struct LayerRun {
  Tensor<T, 3> out;      // (batch, seq, d_out)
  Tensor<T, 4> weights;  // (batch, heads, seq_q, seq_kv); empty unless asked for
  // By name: (batch, heads, seq_q) each, "received" (batch, heads, seq_kv).
  std::vector<std::pair<std::string, Tensor<T, 3>>> statistics;
  Tensor<std::int64_t, 4> top_keys;  // (batch, heads, seq_q, up to 4); empty unless asked for

  const Tensor<T, 3>* find(std::string_view name) const;
};

// x: (batch, seq_q, d_in); keys_values: (batch, seq_kv, d_in) or not given. No dropout. Throws ArgumentError "run:
// there is no statistic 'entrpy'; ...", and as AttentionLayer::forward does.
template <class T>
LayerRun<T> run_layer(const AttentionLayer<T>& layer, TensorView<const T, 3> x, TensorView<const T, 3> keys_values,
                      const ForwardOptions<T>& options, const LayerRunRequest& request,
                      const Execution& execution = {});

// The mean of a statistic for each head, over every query of every batch entry that sees a key; NaN where none does.
// Both (batch, heads, seq_q), of one run: the max_weight of a query is 0 exactly where it sees no key.
template <class T>
std::vector<double> head_means(const Tensor<T, 3>& statistic, const Tensor<T, 3>& max_weight);

// Borrows from the run: "out", then what was asked for by name; without the batch axis, of length 1, when `squeeze`.
template <class T>
std::vector<NamedTensor> run_arrays(const LayerRun<T>& run, const LayerRunRequest& request, bool squeeze);

#define HEADWISE_LAYER_RUN_EXTERN(T)                                                                              \
  extern template struct LayerRun<T>;                                                                             \
  extern template LayerRun<T> run_layer(const AttentionLayer<T>&, TensorView<const T, 3>, TensorView<const T, 3>, \
                                        const ForwardOptions<T>&, const LayerRunRequest&, const Execution&);      \
  extern template std::vector<double> head_means(const Tensor<T, 3>&, const Tensor<T, 3>&);                       \
  extern template std::vector<NamedTensor> run_arrays(const LayerRun<T>&, const LayerRunRequest&, bool);
HEADWISE_LAYER_RUN_EXTERN(float)
HEADWISE_LAYER_RUN_EXTERN(double)
#undef HEADWISE_LAYER_RUN_EXTERN

}  // namespace headwise

#endif  // HEADWISE_LENS_LAYER_RUN_H_
