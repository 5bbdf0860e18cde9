// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/requested_outputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "headwise/tensor/errors.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {
namespace {

constexpr Index kMostTopKeys = 4;

bool needs_positions(std::string_view statistic) {
  return statistic == "distance" || statistic == "self" || statistic == "previous" || statistic == "next";
}

std::size_t statistic_by_name(std::string_view who, nb::handle entry) {
  if (!nb::isinstance<nb::str>(entry)) {
    throw DTypeError(
        fmt::format("{}: stats must be True or a tuple of names, got an entry of type {}", who, type_text(entry)));
  }
  const std::string name = nb::cast<std::string>(entry);
  const auto* found = std::find(kStatisticNames.begin(), kStatisticNames.end(), name);
  if (found != kStatisticNames.end()) return static_cast<std::size_t>(found - kStatisticNames.begin());
  throw ArgumentError(
      fmt::format("{}: stats has no \"{}\"; the names are {}", who, name, fmt::join(kStatisticNames, ", ")));
}

}  // namespace

RequestedOutputs::RequestedOutputs(std::string_view who, nb::handle return_weights, nb::handle stats) : who_(who) {
  constexpr std::string_view expected = "return_weights must be False, True or \"after_dropout\", got ";
  if (is_true_or_false(return_weights)) {
    weights_ = PyObject_IsTrue(return_weights.ptr()) != 0 ? WeightsWanted::kBeforeDropout : WeightsWanted::kNone;
  } else if (!nb::isinstance<nb::str>(return_weights)) {
    throw DTypeError(fmt::format("{}: {}{}", who, expected, type_text(return_weights)));
  } else if (nb::cast<std::string>(return_weights) == "after_dropout") {
    weights_ = WeightsWanted::kAfterDropout;
  } else {
    throw ArgumentError(fmt::format("{}: {}\"{}\"", who, expected, nb::cast<std::string>(return_weights)));
  }

  if (stats.is_none()) return;
  if (is_true_or_false(stats)) {
    stats_wanted_ = PyObject_IsTrue(stats.ptr()) != 0;
    for (std::size_t which = 0; stats_wanted_ && which < kStatisticNames.size(); ++which) {
      statistics_.push_back({which, {}});
    }
    return;
  }
  if (!nb::isinstance<nb::tuple>(stats) && !nb::isinstance<nb::list>(stats)) {
    throw DTypeError(fmt::format("{}: stats must be True or a tuple of names, got {}", who, type_text(stats)));
  }
  stats_wanted_ = true;
  for (nb::handle entry : nb::iter(stats)) {
    const std::size_t which = statistic_by_name(who, entry);
    const auto is_same = [which](const Statistic& other) { return other.which == which; };
    if (std::none_of(statistics_.begin(), statistics_.end(), is_same)) statistics_.push_back({which, {}});
  }
}

void RequestedOutputs::check_positions(const VisibilityArguments& visibility, const AttentionShape& shape) const {
  for (const Statistic& statistic : statistics_) {
    const std::string_view name = kStatisticNames[statistic.which];
    if (needs_positions(name)) visibility.require_positions(fmt::format("stats \"{}\"", name), shape);
  }
}

std::vector<Index> RequestedOutputs::shape_of(std::size_t which, const AttentionShape& shape) const {
  if (kStatisticNames[which] == "received") return {shape.batch, shape.heads, shape.seq_kv};
  if (kStatisticNames[which] == "top_keys") {
    return {shape.batch, shape.heads, shape.seq_q, std::min(kMostTopKeys, shape.seq_kv)};
  }
  return {shape.batch, shape.heads, shape.seq_q};
}

void RequestedOutputs::add_to(MemoryRequest& request, const AttentionShape& shape, DType dtype) const {
  const Index whole[] = {shape.batch, shape.heads, shape.seq_q, shape.seq_kv};
  if (weights()) request.add("weights", whole, dtype_bytes(dtype));
  for (const Statistic& statistic : statistics_) {
    request.add(std::string(kStatisticNames[statistic.which]), shape_of(statistic.which, shape), sizeof(double));
  }
}

void RequestedOutputs::allocate(const AttentionShape& shape, const ArrayArgument& like) {
  const Index whole[] = {shape.batch, shape.heads, shape.seq_q, shape.seq_kv};
  if (weights()) weights_array_ = new_array(whole, like);
  for (Statistic& statistic : statistics_) {
    const bool keys = kStatisticNames[statistic.which] == "top_keys";
    statistic.array =
        new_array(shape_of(statistic.which, shape), keys ? DType::kInt64 : accumulated_dtype(*like.dtype()));
  }
}

nb::object RequestedOutputs::stats_result() const {
  if (!stats_wanted_) return nb::none();
  nb::dict arrays;
  for (const Statistic& statistic : statistics_) {
    const std::string_view name = kStatisticNames[statistic.which];
    arrays[nb::str(name.data(), name.size())] = statistic.array;
  }
  return arrays;
}

template <class T>
void RequestedOutputs::fill_views(const AttentionShape& shape, TensorView<T, 4>& weights_view, bool& after_dropout,
                                  AttentionStatistics<Accumulated<T>>& statistics) const {
  using A = Accumulated<T>;
  after_dropout = weights_after_dropout();
  if (weights()) {
    weights_view = view_of<T, 4>(weights_array_, {shape.batch, shape.heads, shape.seq_q, shape.seq_kv});
  }
  TensorView<A, 3>* const per_row[] = {&statistics.entropy,  &statistics.max_weight, nullptr,
                                       &statistics.distance, &statistics.self,       &statistics.previous,
                                       &statistics.next,     &statistics.first,      nullptr};
  for (const Statistic& statistic : statistics_) {
    const std::vector<Index> sizes = shape_of(statistic.which, shape);
    if (kStatisticNames[statistic.which] == "top_keys") {
      statistics.top_keys = view_of<std::int64_t, 4>(statistic.array, {sizes[0], sizes[1], sizes[2], sizes[3]});
    } else {
      TensorView<A, 3>* target = per_row[statistic.which];
      (target != nullptr ? *target : statistics.received) =
          view_of<A, 3>(statistic.array, {sizes[0], sizes[1], sizes[2]});
    }
  }
}

#define HEADWISE_FILL_VIEWS(T)                                                                \
  template void RequestedOutputs::fill_views(const AttentionShape&, TensorView<T, 4>&, bool&, \
                                             AttentionStatistics<Accumulated<T>>&) const;
HEADWISE_FILL_VIEWS(float)
HEADWISE_FILL_VIEWS(double)
HEADWISE_FILL_VIEWS(float16)
HEADWISE_FILL_VIEWS(bfloat16)
#undef HEADWISE_FILL_VIEWS

}  // namespace headwise::python
