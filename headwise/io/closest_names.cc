// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/closest_names.h"

#include <algorithm>
#include <utility>

namespace headwise {

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) > limit) return limit + 1;
  // Three rows of the usual table: a swap of neighbours looks two rows back.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    if (*std::min_element(row.begin(), row.end()) > limit) return limit + 1;
    std::swap(before, last);
    std::swap(last, row);
  }
  return std::min(last[b.size()], limit + 1);
}

std::vector<std::string> closest_names(std::string_view wanted, std::span<const std::string> names, std::size_t count) {
  // The table grows with the square of the length, and a file may hold very long names.
  constexpr std::size_t kLongest = 256;
  if (wanted.size() > kLongest) return {};
  const std::size_t limit = std::max<std::size_t>(1, wanted.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    const std::size_t distance = edit_distance(wanted, name, limit);
    if (distance <= limit) found.emplace_back(distance, name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> closest;
  for (const auto& [distance, name] : found) {
    if (closest.size() == count) break;
    closest.push_back(name);
  }
  return closest;
}

}  // namespace headwise
