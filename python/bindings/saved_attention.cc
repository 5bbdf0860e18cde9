// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/saved_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "headwise/tensor/errors.h"

namespace headwise::python {
namespace {

// FNV-1a over 64-bit words.
class Digest {
 public:
  Digest& add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001B3ULL;
    value_ ^= value_ >> 29;
    return *this;
  }
  Digest& add(double number) { return add(std::bit_cast<std::uint64_t>(number)); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

constexpr Index kSamples = 64;

std::uint64_t digest_of(std::span<const Index> values) {
  Digest digest;
  for (Index value : values) digest.add(static_cast<std::uint64_t>(value));
  return digest.value();
}

}  // namespace

std::uint64_t fact_of(const ArrayArgument& array) {
  if (!array.given()) return 0;
  Digest digest;
  digest.add(digest_of(array.shape())).add(static_cast<std::uint64_t>(*array.dtype()));
  const Index count = array.elements(), samples = std::min(count, kSamples);
  const std::size_t item = dtype_bytes(*array.dtype());
  for (Index sample = 0; sample < samples; ++sample) {
    Index rest =
        static_cast<Index>(static_cast<double>(count) * static_cast<double>(sample) / static_cast<double>(samples));
    Index offset = 0;
    for (int axis = array.rank() - 1; axis >= 0; --axis) {
      offset += rest % array.shape()[axis] * array.strides()[axis];
      rest /= array.shape()[axis];
    }
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(array.data()) + offset * static_cast<Index>(item), item);
    digest.add(word);
  }
  return digest.value();
}

CallFacts facts_of(const AttentionCall& call) {
  const Visibility visibility = call.visibility().visibility();
  const DropoutRule& dropout = call.dropout();
  const auto optional = [](const std::optional<double>& value) {
    return Digest().add(std::uint64_t{value.has_value()}).add(value.value_or(0)).value();
  };
  const auto whole = [](Index value) { return static_cast<std::uint64_t>(value); };
  return {{"q", fact_of(call.q)},
          {"k", fact_of(call.k)},
          {"v", fact_of(call.v)},
          {"mask", fact_of(call.visibility().mask())},
          {"bias", fact_of(call.bias)},
          {"causal",
           Digest().add(std::uint64_t{visibility.causal}).add(whole(static_cast<Index>(visibility.alignment))).value()},
          {"query_offset", digest_of(visibility.query_offset)},
          {"window", Digest().add(whole(visibility.window_left)).add(whole(visibility.window_right)).value()},
          {"kv_lengths", digest_of(visibility.kv_lengths)},
          {"scale", optional(call.scale())},
          {"softcap", optional(call.softcap())},
          {"alibi_slopes", fact_of(call.alibi_slopes)},
          {"sinks", fact_of(call.sinks)},
          {"dropout", Digest().add(dropout.probability).value()},
          {"seed", dropout.seed},
          {"batch_offset", whole(dropout.batch_offset)},
          {"head_offset", whole(dropout.head_offset)}};
}

void check_saved_fits(const SavedAttention& saved, const AttentionCall& call) {
  const CallFacts facts = facts_of(call);
  for (std::size_t at = 0; at < facts.size(); ++at) {
    if (facts[at].second == saved.facts[at].second) continue;
    throw ArgumentError(fmt::format("{}: saved belongs to another call: {} is not what the forward was given",
                                    call.who(), facts[at].first));
  }
  if (fact_of(ArrayArgument(call.who(), "saved", saved.context)) != saved.context_fact) {
    throw ArgumentError(
        fmt::format("{}: saved can no longer be used: the context it shares was written to after the "
                    "forward",
                    call.who()));
  }
}

void bind_saved_attention(nb::module_& module) {
  nb::class_<SavedAttention>(module, "SavedAttention", "What attention(..., save=True) keeps for attention_backward.")
      .def("__repr__", [](const SavedAttention& saved) {
        const AttentionShape& s = saved.shape;
        return fmt::format(
            "<headwise.SavedAttention of a {} forward: batch={}, heads={}, seq_q={}, seq_kv={}, "
            "head_dim={}>",
            dtype_name(saved.dtype), s.batch, s.heads, s.seq_q, s.seq_kv, s.head_dim);
      });
}

}  // namespace headwise::python
