// SPDX-License-Identifier: Apache-2.0
// How a layer normalizes its queries and keys before their positions are turned in, and every check of it. Source:
// Qwen3 and Gemma 3 (per head), OLMo 2 (over the whole projection).
#ifndef HEADWISE_LAYERS_QUERY_KEY_NORM_H_
#define HEADWISE_LAYERS_QUERY_KEY_NORM_H_

#include <string>
#include <string_view>

namespace headwise {

struct QueryKeyNorm {
  bool whole = false;  // over all heads of a token together; else each head by itself, all with one weight
  double eps = 1e-6;

  bool operator==(const QueryKeyNorm&) const = default;
};

// "per_head" or "whole": how files and reports name it.
std::string_view query_key_norm_name(const QueryKeyNorm& norm);
// "per_head, eps=1e-06".
std::string query_key_norm_text(const QueryKeyNorm& norm);

// Throws ArgumentError "<who>: query_key_norm eps ..." unless 0 <= eps is finite.
void check_query_key_norm(std::string_view who, const QueryKeyNorm& norm);

}  // namespace headwise

#endif  // HEADWISE_LAYERS_QUERY_KEY_NORM_H_
