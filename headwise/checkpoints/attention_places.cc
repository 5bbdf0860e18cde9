// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/attention_places.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace headwise {
namespace {

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// What stands in front of `ending` in `name`, up to and with a dot; "{i}" stands for any number.
std::optional<std::string_view> before(std::string_view name, std::string_view ending) {
  const std::size_t mark = ending.find("{i}");
  const std::string_view tail = mark == ending.npos ? ending : ending.substr(mark + 3);
  if (!name.ends_with(tail)) return std::nullopt;
  name.remove_suffix(tail.size());
  if (mark != ending.npos) {
    if (name.empty() || !is_digit(name.back())) return std::nullopt;
    while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
    if (!name.ends_with(ending.substr(0, mark))) return std::nullopt;
    name.remove_suffix(mark);
  }
  if (!name.empty() && !name.ends_with('.')) return std::nullopt;
  return name;
}

bool is_complete(const SafetensorsSet& set, std::string_view prefix, const AttentionRule& rule) {
  const auto has = [&](std::string_view name) { return set.contains(std::string(prefix) + numbered(name, 0)); };
  if (!has(rule.names.query)) return false;
  if (!rule.names.key.empty() && !(has(rule.names.key) && has(rule.names.value))) return false;
  if (rule.query_key_norm == Presence::kAlways && !has(rule.names.query_norm)) return false;
  if (rule.names.out.empty() || rule.out_proj == Presence::kMaybe) return true;
  return has(rule.names.out) == (rule.out_proj == Presence::kAlways);
}

bool lies_within(std::string_view prefix, std::string_view pattern) {
  if (pattern.empty()) return true;
  if (!prefix.ends_with('.')) return false;
  prefix.remove_suffix(1);
  return before(prefix, pattern).has_value();
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == name.npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

std::optional<Index> number_of(std::string_view part) {
  Index number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (part.empty() || !is_digit(part.front()) || error != std::errc() || end != part.data() + part.size()) return {};
  return number;
}

std::optional<Index> layer_number(std::string_view prefix, std::string_view counted_by) {
  const std::vector<std::string_view> parts = parts_of(prefix);
  std::optional<Index> last;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<Index> number = number_of(parts[i]);
    if (!number) continue;
    if (!counted_by.empty() && i > 0 && parts[i - 1] == counted_by) return number;
    last = number;
  }
  return last;
}

// "layer.2" before "layer.10".
bool comes_before(const AttentionPlace& a, const AttentionPlace& b) {
  const auto left = parts_of(a.prefix), right = parts_of(b.prefix);
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i] == right[i]) continue;
    const auto first = number_of(left[i]), second = number_of(right[i]);
    if (first && second && *first != *second) return *first < *second;
    return left[i] < right[i];
  }
  return left.size() < right.size();
}

struct Match {
  std::string_view prefix;
  std::vector<const AttentionRule*> rules;
  bool complete = false;
};

// The rules whose queries a tensor may be. What is complete comes first, then the longer name: that of a wrapper's head
// is also that of a layer of its own.
Match match(const SafetensorsSet& set, std::string_view tensor) {
  Match best;
  for (const AttentionRule& rule : attention_rules()) {
    const std::optional<std::string_view> prefix = before(tensor, rule.names.query);
    if (!prefix || !lies_within(*prefix, rule.within)) continue;
    const bool complete = is_complete(set, *prefix, rule);
    if (best.rules.empty() || (complete && !best.complete) ||
        (complete == best.complete && prefix->size() < best.prefix.size())) {
      best = {*prefix, {&rule}, complete};
    } else if (complete == best.complete && prefix->size() == best.prefix.size()) {
      best.rules.push_back(&rule);
    }
  }
  return best;
}

}  // namespace

std::vector<AttentionPlace> find_attention(const SafetensorsSet& set) {
  std::map<std::string_view, AttentionPlace> found;
  for (const SafetensorsSet::Place& place : set.places()) {
    Match matched = match(set, place.entry->name);
    if (matched.rules.empty() || found.contains(matched.prefix)) continue;
    const std::optional<Index> number = layer_number(matched.prefix, matched.rules.front()->counted_by);
    found[matched.prefix] = {std::string(matched.prefix), number, std::move(matched.rules)};
  }
  std::vector<AttentionPlace> places;
  places.reserve(found.size());
  for (auto& [prefix, place] : found) places.push_back(std::move(place));
  std::sort(places.begin(), places.end(), comes_before);
  return places;
}

}  // namespace headwise
