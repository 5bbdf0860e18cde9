// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/attention_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "headwise/io/closest_names.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// "'encoder.layer.0.attention' (layer=0), ...": enough of them to choose from.
std::string layer_list(const std::vector<AttentionPlace>& places) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(places.size(), kShown); ++i) {
    text += (text.empty() ? "" : ", ") + quote_name(places[i].name());
    if (places[i].number) text += fmt::format(" (layer={})", *places[i].number);
  }
  if (places.size() > kShown) text += fmt::format(", and {} more", places.size() - kShown);
  return text;
}

std::string family_list(const std::vector<const AttentionRule*>& rules) {
  std::vector<std::string_view> names;
  for (const AttentionRule* rule : rules) {
    if (std::find(names.begin(), names.end(), rule->family) == names.end()) names.push_back(rule->family);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string known_model_types() {
  std::vector<std::string_view> names;
  for (const AttentionRule& rule : attention_rules()) {
    for (const std::string_view type : rule.model_types) {
      if (std::find(names.begin(), names.end(), type) == names.end()) names.push_back(type);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_known_model_type(std::string_view type) {
  const auto rules = attention_rules();
  return std::any_of(rules.begin(), rules.end(), [&](const AttentionRule& rule) { return is_called(rule, type); });
}

std::string layer_text(const AttentionPlace& place) {
  return place.prefix.empty() ? std::string("the layer") : "layer " + quote_name(place.name());
}

}  // namespace

AttentionSource::AttentionSource(std::string who, const std::string& path)
    : who_(std::move(who)), set_(path), places_(find_attention(set_)) {
  const auto& metadata = set_.metadata();
  const auto format = metadata.find("format");
  own_ = format != metadata.end() && format->second == "headwise-layer";
  if (own_) {
    const auto family = metadata.find("family");
    if (family != metadata.end()) stored_family_ = family->second;
    return;
  }
  const std::string config = set_.folder() + "/config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(config, ignored)) return;
  config_.emplace(config);
  if (config_->find("model_type") == nullptr) config_.reset();
}

Index AttentionSource::number_in_file(Index layer) const {
  if (!config_ || config_->find("num_hidden_groups") == nullptr) return layer;
  const Index layers = config_->size("num_hidden_layers");
  return layer < 0 || layer >= layers ? -1 : layer * config_->size("num_hidden_groups") / layers;
}

const AttentionPlace& AttentionSource::choose(const AttentionChoice& choice) const {
  if (places_.empty()) {
    throw FileError(set_.path(), fmt::format("there is no attention layer that headwise knows among its {} tensors",
                                             set_.places().size()));
  }
  std::vector<AttentionPlace> fitting;
  std::size_t found = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const AttentionPlace& place = places_[i];
    if (choice.layer && place.number != number_in_file(*choice.layer)) continue;
    if (!choice.name.empty() && place.name() != choice.name && !place.prefix.starts_with(choice.name + ".")) continue;
    fitting.push_back(place);
    found = i;
  }
  if (fitting.size() == 1) return places_[found];
  if (fitting.size() > 1) {
    throw ArgumentError(fmt::format("{}: layer must be one of the {} that {} holds: {}", who_, fitting.size(),
                                    set_.path(), layer_list(fitting)));
  }
  const std::string given = choice.name.empty() ? std::to_string(*choice.layer) : quote_name(choice.name);
  std::vector<std::string> names;
  for (const AttentionPlace& place : places_) names.push_back(place.name());
  const std::vector<std::string> closest = closest_names(choice.name, names, 1);
  if (!choice.name.empty() && !closest.empty()) {
    throw ArgumentError(fmt::format("{}: layer={} was given, but {} holds no such layer; did you mean {}?", who_, given,
                                    set_.path(), quote_name(closest.front())));
  }
  throw ArgumentError(
      fmt::format("{}: layer={} was given, but {} holds: {}", who_, given, set_.path(), layer_list(places_)));
}

std::vector<const AttentionRule*> AttentionSource::allowed_rules(const AttentionPlace& place,
                                                                 const AttentionChoice& choice) const {
  std::vector<const AttentionRule*> rules = place.rules;
  const auto keep = [&](auto&& wanted) {
    std::erase_if(rules, [&](const AttentionRule* rule) { return !wanted(*rule); });
  };
  if (!choice.family.empty()) {
    check_family(who_, choice.family);
    keep([&](const AttentionRule& rule) { return is_called(rule, choice.family); });
    if (rules.empty()) {
      throw ArgumentError(fmt::format("{}: family={} was given, but the names of {} in {} are those of: {}", who_,
                                      choice.family, layer_text(place), set_.path(), family_list(place.rules)));
    }
  } else if (!stored_family_.empty()) {
    keep([&](const AttentionRule& rule) { return is_called(rule, stored_family_); });
    if (rules.empty()) {
      throw FileError(set_.path(), fmt::format("metadata 'family' is {}, but the names are those of: {}",
                                               quote_name(stored_family_), family_list(place.rules)));
    }
  } else if (config_) {
    const std::string type = config_->text("model_type");
    keep([&](const AttentionRule& rule) { return is_called(rule, type); });
    if (rules.empty() && is_known_model_type(type)) {
      config_->contradict(fmt::format("\"model_type\" is {}, but the names of {} are those of: {}; or give family=",
                                      quote_name(type), layer_text(place), family_list(place.rules)));
    }
    if (rules.empty()) {
      config_->fail(
          fmt::format("\"model_type\" is {}, and the names of {} are not those of its family; headwise reads "
                      "the attention of: {}; or give family=",
                      quote_name(type), layer_text(place), known_model_types()));
    }
  }
  if (!choice.layout.empty()) {
    const WeightLayout layout = parse_weight_layout(who_, choice.layout);
    const auto fits = [&](const AttentionRule* rule) { return rule->layout == layout; };
    if (std::none_of(rules.begin(), rules.end(), fits)) {
      throw ArgumentError(fmt::format("{}: layout={} was given, but the names of {} in {} are those of: {} (layout {})",
                                      who_, choice.layout, layer_text(place), set_.path(), family_list(rules),
                                      weight_layout_name(rules.front()->layout)));
    }
    keep([&](const AttentionRule& rule) { return rule.layout == layout; });
  }
  // A rule that says where in a model its layers lie is more certain than one that does not.
  const auto is_placed = [](const AttentionRule* rule) { return !rule->within.empty(); };
  if (std::any_of(rules.begin(), rules.end(), is_placed)) {
    keep([](const AttentionRule& rule) { return !rule.within.empty(); });
  }
  return rules;
}

std::vector<AttentionReading> AttentionSource::readings(const AttentionPlace& place,
                                                        const AttentionChoice& choice) const {
  std::vector<AttentionReading> readings;
  std::string fault;
  for (const AttentionRule* rule : allowed_rules(place, choice)) {
    try {
      const std::string family =
          config_ && choice.family.empty() ? config_->text("model_type") : std::string(rule->family);
      readings.push_back({rule, family, read_attention_shapes(set_, place, *rule), place.number});
    } catch (const FileError& error) {
      if (fault.empty()) fault = error.what();
    }
  }
  if (!readings.empty()) return readings;
  const std::vector<AttentionReading> others = fitting(place);
  if (config_ && choice.family.empty() && choice.layout.empty() && !others.empty()) {
    std::vector<const AttentionRule*> rules;
    rules.reserve(others.size());
    for (const AttentionReading& reading : others) rules.push_back(reading.rule);
    config_->contradict(fmt::format("\"model_type\" is {}, but the shapes of {} are those of: {}; or give family=",
                                    quote_name(config_->text("model_type")), layer_text(place), family_list(rules)));
  }
  throw FileError(set_.path(), fault.substr(set_.path().size() + 2));
}

std::vector<AttentionReading> AttentionSource::fitting(const AttentionPlace& place) const {
  std::vector<AttentionReading> readings;
  for (const AttentionRule* rule : place.rules) {
    try {
      readings.push_back({rule, std::string(rule->family), read_attention_shapes(set_, place, *rule), place.number});
    } catch (const FileError&) {
      continue;
    }
  }
  return readings;
}

AttentionReading AttentionSource::reading(const AttentionPlace& place, const AttentionChoice& choice) const {
  std::vector<AttentionReading> left = readings(place, choice);
  if (left.size() == 1) return std::move(left.front());
  std::vector<const AttentionRule*> rules;
  rules.reserve(left.size());
  for (const AttentionReading& reading : left) rules.push_back(reading.rule);
  throw ArgumentError(fmt::format("{}: family is neither stored in {} nor given; the names of {} are those of: {}",
                                  who_, set_.path(), layer_text(place), family_list(rules)));
}

}  // namespace headwise
