// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/query_key_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "headwise/tensor/errors.h"

namespace headwise {

std::string_view query_key_norm_name(const QueryKeyNorm& norm) { return norm.whole ? "whole" : "per_head"; }

std::string query_key_norm_text(const QueryKeyNorm& norm) {
  return fmt::format("{}, eps={}", query_key_norm_name(norm), norm.eps);
}

void check_query_key_norm(std::string_view who, const QueryKeyNorm& norm) {
  if (norm.eps >= 0 && std::isfinite(norm.eps)) return;
  throw ArgumentError(fmt::format("{}: query_key_norm eps must be at least 0 and finite, got {}", who, norm.eps));
}

}  // namespace headwise
