// SPDX-License-Identifier: Apache-2.0
// What a caller asked for beside the context (weights, statistics), made as numpy arrays. Shared by headwise.attention
// and the layers.
#ifndef HEADWISE_PYTHON_BINDINGS_REQUESTED_OUTPUTS_H_
#define HEADWISE_PYTHON_BINDINGS_REQUESTED_OUTPUTS_H_

#include <array>
#include <string_view>
#include <vector>

#include "headwise/kernels/attention.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/visibility_arguments.h"

namespace headwise::python {

class RequestedOutputs {
 public:
  // return_weights: False, True or "after_dropout"; stats: None, False, True or names. Throws DTypeError,
  // ArgumentError.
  RequestedOutputs(std::string_view who, nb::handle return_weights, nb::handle stats);

  bool weights() const { return weights_ != WeightsWanted::kNone; }
  bool weights_after_dropout() const { return weights_ == WeightsWanted::kAfterDropout; }
  bool stats() const { return stats_wanted_; }

  // Throws ArgumentError when a statistic that was asked for needs positions nobody stated.
  void check_positions(const VisibilityArguments& visibility, const AttentionShape& shape) const;
  void add_to(MemoryRequest& request, const AttentionShape& shape, DType dtype) const;

  // Makes the arrays: weights of like's type, statistics of its accumulated type. Afterwards views<T>() and the two
  // results are valid.
  void allocate(const AttentionShape& shape, const ArrayArgument& like);
  template <class T>
  void fill_views(const AttentionShape& shape, TensorView<T, 4>& weights, bool& after_dropout,
                  AttentionStatistics<Accumulated<T>>& statistics) const;

  // The weights array, or None.
  nb::object weights_result() const { return weights_array_.is_valid() ? weights_array_ : nb::none(); }
  // A dict of arrays by name, or None.
  nb::object stats_result() const;

 private:
  enum class WeightsWanted : std::uint8_t { kNone, kBeforeDropout, kAfterDropout };
  struct Statistic {
    std::size_t which = 0;  // index into kStatisticNames
    nb::object array;
  };

  std::vector<Index> shape_of(std::size_t which, const AttentionShape& shape) const;

  std::string who_;
  WeightsWanted weights_ = WeightsWanted::kNone;
  bool stats_wanted_ = false;
  nb::object weights_array_;
  std::vector<Statistic> statistics_;
};

inline constexpr std::array<std::string_view, 9> kStatisticNames = {
    "entropy", "max_weight", "top_keys", "distance", "self", "previous", "next", "first", "received"};

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_REQUESTED_OUTPUTS_H_
