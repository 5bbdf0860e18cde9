// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/inspect_attention.h"

#include <algorithm>
#include <stdexcept>

#include "headwise/checkpoints/attention_source.h"

namespace headwise {
namespace {

Index elements_of(const SafetensorsEntry& entry) {
  Index count = 1;
  for (const Index extent : entry.shape) count *= extent;
  return count;
}

// numpy's name of the type where there is one, the format's otherwise.
std::string type_of(const SafetensorsEntry& entry) {
  return std::string(entry.type->dtype ? dtype_name(*entry.type->dtype) : entry.type->name);
}

// Of the tensors whose names start with the layer's own and that are weights or biases of a rule.
std::string type_of_layer(const SafetensorsSet& set, const AttentionPlace& place) {
  std::string type;
  const auto add = [&](std::string_view name) {
    if (name.empty()) return;
    const SafetensorsSet::Place* found = set.find(place.prefix + numbered(name, 0));
    if (found == nullptr) return;
    const std::string own = type_of(*found->entry);
    type = type.empty() || type == own ? own : "mixed";
  };
  for (const AttentionRule* rule : place.rules) {
    const AttentionNames& names = rule->names;
    for (const std::string_view name : {names.query, names.key, names.value, names.out}) add(name);
  }
  return type;
}

// What every candidate says alike.
template <class Value, class Get>
std::optional<Value> agreed(const std::vector<AttentionReading>& readings, Get get) {
  const Value first = get(readings.front());
  const auto same = [&](const AttentionReading& reading) { return get(reading) == first; };
  return std::all_of(readings.begin(), readings.end(), same) ? std::optional(first) : std::nullopt;
}

void describe(const std::vector<AttentionReading>& readings, AttentionSummary& summary) {
  using Reading = AttentionReading;
  for (const Reading& reading : readings) summary.families.push_back(reading.family);
  const auto layout = [](const Reading& reading) { return std::string(weight_layout_name(reading.rule->layout)); };
  summary.layout = agreed<std::string>(readings, layout);
  summary.d_in = agreed<Index>(readings, [](const Reading& reading) { return reading.shapes.d_in; });
  summary.d_out = agreed<Index>(readings, [](const Reading& reading) { return reading.shapes.d_out; });
  summary.qkv_bias = agreed<bool>(readings, [](const Reading& reading) { return reading.shapes.qkv_bias; });
  summary.out_proj = agreed<bool>(readings, [](const Reading& reading) { return reading.shapes.out_proj; });
  summary.out_bias = agreed<bool>(readings, [](const Reading& reading) { return reading.shapes.out_bias; });
  summary.parameters = agreed<Index>(readings, [](const Reading& reading) { return reading.shapes.parameters; });
}

void add_facts(const AttentionSource& source, const AttentionReading& reading, AttentionSummary& summary) {
  const AttentionFacts facts = source.facts(reading, {});
  summary.heads = facts.layer.num_heads;
  summary.kv_heads = facts.kv_heads;
  summary.head_dim = facts.head_dim;
  summary.causal = facts.layer.causal;
  summary.rotary = facts.layer.rotary;
  summary.window_left = facts.layer.window_left;
  // A family that turns does so by a rule that only config.json or headwise's own metadata can tell.
  if (reading.rule->rotary && !summary.rotary) return;
  summary.has_rotary = summary.rotary.has_value();
  summary.has_window = summary.window_left.has_value();
}

// Whose names these are, from config.json or, where that contradicts the tensors, from those alone.
std::vector<AttentionReading> find_readings(const AttentionSource& source, const AttentionPlace& place,
                                            AttentionSummary& summary) {
  try {
    return source.readings(place, {});
  } catch (const ContradictionError& error) {
    summary.problem = error.what();
    summary.contradiction = true;
  } catch (const std::exception& error) {
    summary.problem = error.what();
  }
  return source.fitting(place);
}

AttentionSummary summarize(const AttentionSource& source, const AttentionPlace& place) {
  AttentionSummary summary;
  summary.name = place.name();
  summary.number = place.number;
  summary.dtype = type_of_layer(source.set(), place);
  const std::vector<AttentionReading> readings = find_readings(source, place, summary);
  if (!readings.empty()) describe(readings, summary);
  if (summary.families.empty()) {
    for (const AttentionRule* rule : place.rules) summary.families.emplace_back(rule->family);
  }
  if (!summary.problem.empty() || readings.size() != 1) return summary;
  try {
    add_facts(source, readings.front(), summary);
  } catch (const ContradictionError& error) {
    summary.problem = error.what();
    summary.contradiction = true;
  } catch (const std::exception& error) {
    summary.problem = error.what();
  }
  return summary;
}

}  // namespace

AttentionInspection inspect_attention(const std::string& path) {
  const AttentionSource source("inspect", path);
  AttentionInspection inspection;
  inspection.path = source.set().path();
  inspection.files = source.set().file_count();
  for (const AttentionPlace& place : source.places()) {
    inspection.layers.push_back(summarize(source, place));
    inspection.attention_parameters += inspection.layers.back().parameters.value_or(0);
  }
  for (const SafetensorsSet::Place& place : source.set().places()) inspection.parameters += elements_of(*place.entry);
  return inspection;
}

}  // namespace headwise
