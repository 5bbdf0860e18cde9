// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/attention_call.h"

#include <fmt/format.h>

#include <limits>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {
namespace {

// The counter words that dropout gives to batch and head.
constexpr Index kLastOffset = std::numeric_limits<std::uint32_t>::max();

}  // namespace

AttentionCall::AttentionCall(std::string_view who, const AttentionHandles& given)
    : who_(who), visibility_(who, AlignmentNames::kTaken) {
  take_inputs(given);
  take_rule(given);
  visibility_.take_mask(given.mask, shape_, given.arrays);
  visibility_.take_causal(given.causal);
  visibility_.take_window(given.window);
  visibility_.take_query_offset(given.query_offset, shape_);
  visibility_.take_kv_lengths(given.kv_lengths);
  take_dropout(given);
  with_float_type(dtype(), [&](auto zero) { check_attention(who_, problem<decltype(zero)>()); });
}

AttentionCall::AttentionCall(std::string_view who, const AttentionHandles& given, const CachedKeys& cached)
    : who_(who), visibility_(who, AlignmentNames::kTaken) {
  take_queries(given.q, cached);
  take_rule(given);
  visibility_.take_mask(given.mask, shape_, given.arrays);
  visibility_.take_causal(given.causal);
  visibility_.take_window(given.window);
  visibility_.take_query_offset(given.query_offset, shape_);
  visibility_.default_to_lower_right();
  with_float_type(dtype(), [&](auto zero) { check_attention(who_, problem<decltype(zero)>()); });
}

ArrayArgument AttentionCall::required_array(const char* name, nb::handle object, ArrayLibrary library) const {
  if (object.is_none()) throw DTypeError(who_ + ": " + name + " must be a numpy array, got NoneType");
  return ArrayArgument(who_, name, object, library);
}

void AttentionCall::take_queries(nb::handle given, const CachedKeys& cached) {
  q = required_array("q", given, ArrayLibrary::kNumpy);
  require_dtype(q, cached.dtype, "the cache");
  check_shape(who_, "q", q.shape(), {{"batch", cached.batch}, {"heads"}, {"seq_q"}, {"head_dim", cached.head_dim}});
  shape_ = {cached.batch,  q.shape()[1],    cached.kv_heads,  q.shape()[2],
            cached.seq_kv, cached.head_dim, cached.v_head_dim};
}

void AttentionCall::take_inputs(const AttentionHandles& given) {
  q = required_array("q", given.q, given.arrays);
  k = required_array("k", given.k, given.arrays);
  v = required_array("v", given.v, given.arrays);
  require_float(q);
  require_same_dtype(k, q);
  require_same_dtype(v, q);
  check_shape(who_, "q", q.shape(), {{"batch"}, {"heads"}, {"seq_q"}, {"head_dim"}});
  shape_.batch = q.shape()[0];
  shape_.heads = q.shape()[1];
  shape_.seq_q = q.shape()[2];
  shape_.head_dim = q.shape()[3];
  check_shape(who_, "k", k.shape(), {{"batch", shape_.batch}, {"kv_heads"}, {"seq_kv"}, {"head_dim", shape_.head_dim}});
  shape_.kv_heads = k.shape()[1];
  shape_.seq_kv = k.shape()[2];
  check_shape(who_, "v", v.shape(),
              {{"batch", shape_.batch}, {"kv_heads", shape_.kv_heads}, {"seq_kv", shape_.seq_kv}, {"v_head_dim"}});
  shape_.v_head_dim = v.shape()[3];
}

void AttentionCall::take_rule(const AttentionHandles& given) {
  bias = ArrayArgument(who_, "bias", given.bias, given.arrays);
  alibi_slopes = ArrayArgument(who_, "alibi_slopes", given.alibi_slopes, given.arrays);
  sinks = ArrayArgument(who_, "sinks", given.sinks, given.arrays);
  require_same_dtype(bias, q);
  for (const ArrayArgument* array : {&alibi_slopes, &sinks}) require_accumulated_dtype(*array, q);
  check_score_shape(who_, bias, shape_);
  for (const ArrayArgument* array : {&alibi_slopes, &sinks}) {
    if (array->given()) check_shape(who_, array->name(), array->shape(), {{"heads", shape_.heads}});
  }
  if (!given.scale.is_none()) scale_ = real_argument({who_, "scale"}, given.scale);
  if (!given.softcap.is_none()) softcap_ = real_argument({who_, "softcap"}, given.softcap);
}

void AttentionCall::take_dropout(const AttentionHandles& given) {
  dropout_.probability = real_argument({who_, "dropout"}, given.dropout);
  dropout_.batch_offset = integer_argument({who_, "batch_offset"}, given.batch_offset, 0, kLastOffset);
  dropout_.head_offset = integer_argument({who_, "head_offset"}, given.head_offset, 0, kLastOffset);
  if (!(dropout_.probability >= 0 && dropout_.probability < 1)) {
    throw ArgumentError(fmt::format("{}: dropout must be in [0, 1), got {}", who_, dropout_.probability));
  }
  if (!given.seed.is_none()) {
    dropout_.seed = seed_argument({who_, "seed"}, given.seed);
  } else if (dropout_.probability > 0) {
    throw ArgumentError(fmt::format("{}: dropout={} needs a seed, got seed=None", who_, dropout_.probability));
  }
}

double AttentionCall::operations() const {
  return static_cast<double>(shape_.batch) * static_cast<double>(shape_.heads) * static_cast<double>(shape_.seq_q) *
         static_cast<double>(shape_.seq_kv) * static_cast<double>(shape_.head_dim + shape_.v_head_dim);
}

}  // namespace headwise::python
