// SPDX-License-Identifier: Apache-2.0
#include "cli/head_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/usage.h"
#include "headwise/io/file_error.h"

namespace headwise::cli {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 9 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<HeadScale> parse(std::string_view option, const std::string& text, bool with_scale) {
  const char* form = with_scale ? "heads with scales, as L0H3=0.5,L1H2=2" : "heads, as L6H11,L0H3, or all";
  const auto refuse = [&] { throw UsageError(fmt::format("{} must be {}, got {}", option, form, quote_name(text))); };
  std::vector<HeadScale> heads;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t middle = part.find('H'), equals = std::min(part.find('='), part.size());
    if (!part.starts_with('L') || middle == std::string::npos || middle > equals) refuse();
    const std::string layer = part.substr(1, middle - 1), head = part.substr(middle + 1, equals - middle - 1);
    if (!is_number(layer) || !is_number(head) || (equals < part.size()) != with_scale) refuse();
    const double scale = with_scale ? parse_number(option, part.substr(equals + 1)) : 0;
    heads.push_back({parse_count(option, layer), parse_count(option, head), scale});
    begin = end + 1;
  }
  return heads;
}

}  // namespace

std::vector<HeadScale> parse_heads(std::string_view option, const std::string& text) {
  return parse(option, text, false);
}

std::vector<HeadScale> parse_head_scales(std::string_view option, const std::string& text) {
  return parse(option, text, true);
}

std::string head_name(Index layer, Index head) { return fmt::format("L{}H{}", layer, head); }

}  // namespace headwise::cli
