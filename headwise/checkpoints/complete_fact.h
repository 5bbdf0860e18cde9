// SPDX-License-Identifier: Apache-2.0
// A fact that a call may give and a file may store: either alone will do, and two must agree. Not installed.
#ifndef HEADWISE_CHECKPOINTS_COMPLETE_FACT_H_
#define HEADWISE_CHECKPOINTS_COMPLETE_FACT_H_

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "headwise/checkpoints/layer_facts.h"
#include "headwise/tensor/errors.h"

namespace headwise {

inline std::string fact_text(LayerKind kind) { return std::string(layer_kind_name(kind)); }
inline std::string fact_text(Index count) { return std::to_string(count); }
inline std::string fact_text(const RotaryRule& rule) { return "(" + rotary_text(rule) + ")"; }
inline std::string fact_text(const QueryKeyNorm& norm) { return "(" + query_key_norm_text(norm) + ")"; }
inline std::string fact_text(bool flag) { return flag ? "true" : "false"; }

// Throws ArgumentError "load: num_heads=3 was given, but layer.safetensors says 2".
template <class Fact>
void complete_fact(std::string_view who, std::string_view name, std::optional<Fact>& given,
                   const std::optional<Fact>& stored, std::string_view path) {
  if (!given) given = stored;
  if (!given || !stored || *given == *stored) return;
  throw ArgumentError(
      fmt::format("{}: {}={} was given, but {} says {}", who, name, fact_text(*given), path, fact_text(*stored)));
}

// Throws ArgumentError "load: num_heads is neither stored in layer.safetensors nor given".
[[noreturn]] inline void fail_missing_fact(std::string_view who, std::string_view name, std::string_view path) {
  throw ArgumentError(fmt::format("{}: {} is neither stored in {} nor given", who, name, path));
}

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_COMPLETE_FACT_H_
