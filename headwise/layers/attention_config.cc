// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/attention_config.h"

#include <fmt/format.h>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

// Far above any model; keeps every product of three sizes inside an Index.
constexpr Index kLargestWidth = Index{1} << 24;

}  // namespace

void check_width(std::string_view who, std::string_view name, Index value) {
  if (value < 1) throw ArgumentError(fmt::format("{}: {} must be at least 1, got {}", who, name, value));
  if (value > kLargestWidth) {
    throw ArgumentError(fmt::format("{}: {} must be at most {}, got {}", who, name, kLargestWidth, value));
  }
}

AttentionSizes check_config(const AttentionConfig& config) {
  const std::string& who = config.who;
  check_width(who, "d_in", config.d_in);
  check_width(who, "d_out", config.d_out);
  check_width(who, "num_heads", config.num_heads);
  if (config.num_kv_heads) check_width(who, "num_kv_heads", *config.num_kv_heads);
  if (config.context_length) check_width(who, "context_length", *config.context_length);
  AttentionSizes sizes{config.num_heads, config.num_kv_heads.value_or(config.num_heads), 0};
  if (config.head_dim) {
    check_width(who, "head_dim", *config.head_dim);
    sizes.head_dim = *config.head_dim;
  } else {
    check_divisible(who, "d_out", config.d_out, "num_heads", config.num_heads);
    sizes.head_dim = config.d_out / config.num_heads;
  }
  check_divisible(who, "num_heads", sizes.heads, "num_kv_heads", sizes.kv_heads);
  check_width(who, "num_heads * head_dim", sizes.query_width());
  if (!config.out_proj && sizes.query_width() != config.d_out) {
    throw ArgumentError(fmt::format("{}: without out_proj d_out must be num_heads * head_dim = {} * {} = {}, got {}",
                                    who, sizes.heads, sizes.head_dim, sizes.query_width(), config.d_out));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw ArgumentError(fmt::format("{}: dropout must be in [0, 1), got {}", who, config.dropout));
  }
  if (config.window_left && *config.window_left < 0) {
    throw ArgumentError(fmt::format("{}: window_left must be at least 0, got {}", who, *config.window_left));
  }
  if (config.query_key_norm) check_query_key_norm(who, *config.query_key_norm);
  if (config.rotary) check_rotary(who, *config.rotary, sizes.head_dim);
  return sizes;
}

}  // namespace headwise
