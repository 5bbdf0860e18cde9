// SPDX-License-Identifier: Apache-2.0
// Every check of an attention call, before any arithmetic.
#include "headwise/kernels/attention_check.h"

#include <cmath>
#include <string>
#include <utility>

#include "headwise/kernels/blocks.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

// Leaves room for adding rows and keys to a position.
constexpr Index kMostOffset = Index{1} << 62;

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

template <class T>
AttentionShape shape_of_inputs(std::string_view who, const AttentionInputs<T>& inputs) {
  AttentionShape shape;
  shape.batch = inputs.queries.size(0);
  shape.heads = inputs.queries.size(1);
  shape.seq_q = inputs.queries.size(2);
  shape.head_dim = inputs.queries.size(3);
  shape.kv_heads = inputs.keys.size(1);
  shape.seq_kv = inputs.keys.size(2);
  shape.v_head_dim = inputs.values.size(3);
  check_shape(who, "k", inputs.keys, {{"batch", shape.batch}, {"kv_heads"}, {"seq_kv"}, {"head_dim", shape.head_dim}});
  check_shape(who, "v", inputs.values,
              {{"batch", shape.batch}, {"kv_heads", shape.kv_heads}, {"seq_kv", shape.seq_kv}, {"v_head_dim"}});
  if (shape.heads > 0) check_divisible(who, "heads", shape.heads, "kv_heads", shape.kv_heads);
  return shape;
}

template <class T>
void check_rule(std::string_view who, const ScoreRule<T>& rule, const AttentionShape& shape) {
  if (rule.scale && !std::isfinite(*rule.scale)) {
    throw ArgumentError(std::string(who) + ": scale must be a finite number, got " + number(*rule.scale));
  }
  if (rule.softcap && !(*rule.softcap > 0 && std::isfinite(*rule.softcap))) {
    throw ArgumentError(std::string(who) + ": softcap must be a finite number above 0, got " + number(*rule.softcap));
  }
  if (rule.alibi_slopes) check_shape(who, "alibi_slopes", rule.alibi_slopes, {{"heads", shape.heads}});
  if (rule.sinks) check_shape(who, "sinks", rule.sinks, {{"heads", shape.heads}});
  if (rule.bias) {
    check_broadcast_shape(
        who, "bias", rule.bias.shape(),
        {{"batch", shape.batch}, {"heads", shape.heads}, {"seq_q", shape.seq_q}, {"seq_kv", shape.seq_kv}});
  }
}

std::string_view first_position_option(const Visibility& visibility, bool alibi) {
  if (visibility.causal) return "causal=True";
  if (visibility.window_left >= 0 || visibility.window_right >= 0) return "window";
  return alibi ? "alibi_slopes" : "";
}

void check_positions(std::string_view who, const Visibility& visibility, const AttentionShape& shape, bool alibi) {
  const std::string prefix = std::string(who) + ": ";
  if (visibility.window_left < -1 || visibility.window_right < -1) {
    throw ArgumentError(prefix + "window must be (left, right) with each >= 0, or -1 for unlimited, got (" +
                        std::to_string(visibility.window_left) + ", " + std::to_string(visibility.window_right) + ")");
  }
  if (visibility.alignment == Alignment::kOffset && visibility.query_offset.size() != 1) {
    const Index got[] = {static_cast<Index>(visibility.query_offset.size())};
    check_shape(who, "query_offset", got, {{"batch", shape.batch}});
  }
  if (visibility.alignment == Alignment::kOffset) {
    for (std::size_t i = 0; i < visibility.query_offset.size(); ++i) {
      const Index offset = visibility.query_offset[i];
      if (-kMostOffset <= offset && offset <= kMostOffset) continue;
      throw ArgumentError(prefix + "query_offset must be in -2^62..2^62, got " + std::to_string(offset) +
                          " at batch entry " + std::to_string(i));
    }
  }
  const std::string_view option = first_position_option(visibility, alibi);
  if (visibility.alignment == Alignment::kSelf && !option.empty() && shape.seq_q != shape.seq_kv) {
    throw ArgumentError(prefix + std::string(option) + " needs seq_q == seq_kv or a stated alignment, got seq_q=" +
                        std::to_string(shape.seq_q) + " and seq_kv=" + std::to_string(shape.seq_kv) +
                        "; give query_offset, causal=\"upper_left\" or causal=\"lower_right\"");
  }
}

void check_visibility(std::string_view who, const Visibility& visibility, const AttentionShape& shape, bool alibi) {
  check_positions(who, visibility, shape, alibi);
  if (!visibility.kv_lengths.empty() || visibility.kv_lengths.data() != nullptr) {
    const Index got[] = {static_cast<Index>(visibility.kv_lengths.size())};
    check_shape(who, "kv_lengths", got, {{"batch", shape.batch}});
    for (std::size_t i = 0; i < visibility.kv_lengths.size(); ++i) {
      const Index length = visibility.kv_lengths[i];
      if (length >= 0 && length <= shape.seq_kv) continue;
      throw ArgumentError(std::string(who) + ": kv_lengths must be in 0..seq_kv=" + std::to_string(shape.seq_kv) +
                          ", got " + std::to_string(length) + " at batch entry " + std::to_string(i));
    }
  }
  if (visibility.mask) {
    check_broadcast_shape(
        who, "mask", visibility.mask.shape(),
        {{"batch", shape.batch}, {"heads", shape.heads}, {"seq_q", shape.seq_q}, {"seq_kv", shape.seq_kv}});
  }
}

}  // namespace

template <class T>
AttentionShape check_attention(std::string_view who, const AttentionProblem<T>& problem) {
  const AttentionShape shape = shape_of_inputs(who, problem.inputs);
  check_rule(who, problem.rule, shape);
  check_visibility(who, problem.visibility, shape, static_cast<bool>(problem.rule.alibi_slopes));
  const double probability = problem.dropout.probability;
  if (!(probability >= 0 && probability < 1)) {
    throw ArgumentError(std::string(who) + ": dropout must be in [0, 1), got " + number(probability));
  }
  const Index position_offset = problem.dropout.position_offset;
  if (position_offset % kKeyBlock != 0) {
    throw ArgumentError(std::string(who) + ": dropout position_offset must be a multiple of " +
                        std::to_string(kKeyBlock) + ", got " + std::to_string(position_offset));
  }
  return shape;
}

template <class T>
void check_attention_outputs(std::string_view who, const AttentionShape& s, const AttentionOutputs<T>& outputs) {
  const Axis batch{"batch", s.batch}, heads{"heads", s.heads}, rows{"seq_q", s.seq_q}, keys{"seq_kv", s.seq_kv};
  check_shape(who, "context", outputs.context, {batch, heads, rows, {"v_head_dim", s.v_head_dim}});
  if (outputs.unrounded_context) {
    check_shape(who, "unrounded_context", outputs.unrounded_context,
                {batch, heads, rows, {"v_head_dim", s.v_head_dim}});
  }
  if (outputs.weights) check_shape(who, "weights", outputs.weights, {batch, heads, rows, keys});
  const AttentionStatistics<Accumulated<T>>& stats = outputs.statistics;
  if (stats.top_keys) check_shape(who, "top_keys", stats.top_keys, {batch, heads, rows, {"k"}});
  if (stats.received) check_shape(who, "received", stats.received, {batch, heads, keys});
  const std::pair<const char*, const TensorView<Accumulated<T>, 3>*> per_row[] = {{"logsumexp", &outputs.logsumexp},
                                                                                  {"row_max", &outputs.row_max},
                                                                                  {"row_sum", &outputs.row_sum},
                                                                                  {"entropy", &stats.entropy},
                                                                                  {"max_weight", &stats.max_weight},
                                                                                  {"distance", &stats.distance},
                                                                                  {"self", &stats.self},
                                                                                  {"previous", &stats.previous},
                                                                                  {"next", &stats.next},
                                                                                  {"first", &stats.first}};
  for (const auto& [name, view] : per_row) {
    if (*view) check_shape(who, name, *view, {batch, heads, rows});
  }
}

#define HEADWISE_ATTENTION_CHECK(T)                                                                      \
  template HEADWISE_EXPORT AttentionShape check_attention(std::string_view, const AttentionProblem<T>&); \
  template void check_attention_outputs(std::string_view, const AttentionShape&, const AttentionOutputs<T>&);
HEADWISE_ATTENTION_CHECK(float)
HEADWISE_ATTENTION_CHECK(double)
HEADWISE_ATTENTION_CHECK(float16)
HEADWISE_ATTENTION_CHECK(bfloat16)
#undef HEADWISE_ATTENTION_CHECK

}  // namespace headwise
