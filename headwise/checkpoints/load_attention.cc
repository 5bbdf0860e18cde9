// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/load_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "headwise/checkpoints/attention_source.h"
#include "headwise/checkpoints/attention_state.h"
#include "headwise/checkpoints/complete_fact.h"
#include "headwise/checkpoints/make_layer.h"
#include "headwise/checkpoints/widen.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

constexpr const char* kWho = "load";

LayerKind kind_of_family(std::string_view family) {
  if (family == "wrapper") return LayerKind::kMultiHeadAttentionWrapper;
  if (family == "seed") return LayerKind::kMultiHeadAttentionLayer;
  return LayerKind::kMultiHeadAttention;
}

// The rule of the names that a layer of this kind has.
const AttentionRule& own_rule(LayerKind kind) {
  const std::string_view family = kind == LayerKind::kMultiHeadAttentionWrapper ? "wrapper"
                                  : kind == LayerKind::kMultiHeadAttentionLayer ? "seed"
                                                                                : "book";
  const auto rules = attention_rules();
  return *std::find_if(rules.begin(), rules.end(), [&](const AttentionRule& rule) { return rule.family == family; });
}

// A file that is one layer of headwise's own classes, and no choice asks for another reading.
bool is_layer_file(const AttentionSource& source, const AttentionChoice& choice) {
  if (choice.layer || !choice.name.empty() || !choice.family.empty() || !choice.layout.empty()) return false;
  if (source.places().size() != 1 || !source.places().front().prefix.empty()) return false;
  const auto& rules = source.places().front().rules;
  const auto is_own = [](const AttentionRule* rule) {
    return rule->family == "book" || rule->family == "wrapper" || rule->family == "seed";
  };
  return std::all_of(rules.begin(), rules.end(), is_own);
}

LayerLayout layout_of(const AttentionShapes& shapes) {
  LayerLayout layout;
  layout.d_in = shapes.d_in;
  layout.d_out = shapes.d_out;
  layout.query_rows = shapes.query_rows;
  layout.key_rows = shapes.key_rows;
  layout.qkv_bias = shapes.qkv_bias;
  layout.out_proj = shapes.out_proj;
  layout.out_bias = shapes.out_bias;
  return layout;
}

// Every fact that a layer needs; a class that the names leave open is MultiHeadAttention.
LayerFacts complete_facts(const AttentionSource& source, const AttentionReading& reading, const LayerFacts& given) {
  LayerFacts facts = source.facts(reading, given).layer;
  const std::string& path = source.set().path();
  if (!facts.kind) facts.kind = kind_of_family(reading.rule->family);
  if (!facts.num_heads) fail_missing_fact(kWho, "num_heads", path);
  if (!facts.causal) fail_missing_fact(kWho, "causal", path);
  if (reading.rule->rotary && !facts.rotary) fail_missing_fact(kWho, "rotary", path);
  if (reading.shapes.query_key_norm && !facts.query_key_norm) fail_missing_fact(kWho, "query_key_norm", path);
  if (!facts.dropout) facts.dropout = 0;
  return facts;
}

}  // namespace

template <class T>
AnyLayer<T> load_attention(const std::string& path, const AttentionChoice& choice, const LayerFacts& given) {
  const AttentionSource source(kWho, path);
  const SafetensorsSet& set = source.set();
  if (is_layer_file(source, choice)) return load_layer<T>(set.path(), given);
  const AttentionPlace& place = source.choose(choice);
  const AttentionReading reading = source.reading(place, choice);
  const LayerFacts facts = complete_facts(source, reading, given);
  AttentionState state(set, place, *reading.rule, reading.shapes);
  try {
    AnyLayer<T> layer = make_layer<T>(facts, layout_of(reading.shapes), set.path());
    const std::vector<NamedTensor> tensors = state.arranged(own_rule(*facts.kind), *facts.num_heads);
    const WidenedTensors widened(tensors);
    std::visit([&](auto& any) { any.load(widened.tensors()); }, layer);
    return layer;
  } catch (const std::invalid_argument& error) {
    throw FileError(set.path(), error.what());
  }
}

DType attention_dtype(const std::string& path, const AttentionChoice& choice) {
  const AttentionSource source(kWho, path);
  if (is_layer_file(source, choice)) return layer_file_dtype(source.set().path());
  const AttentionPlace& place = source.choose(choice);
  const AttentionReading reading = source.reading(place, choice);
  const AttentionNames& names = reading.rule->names;
  for (const std::string_view name : {names.query, names.key, names.value, names.query_bias, names.key_bias,
                                      names.value_bias, names.out, names.out_bias}) {
    const SafetensorsSet::Place* found = source.set().find(place.prefix + numbered(name, 0));
    if (found != nullptr && found->entry->type->dtype == DType::kFloat64) return DType::kFloat64;
  }
  return DType::kFloat32;
}

template HEADWISE_EXPORT AnyLayer<float> load_attention(const std::string&, const AttentionChoice&, const LayerFacts&);
template HEADWISE_EXPORT AnyLayer<double> load_attention(const std::string&, const AttentionChoice&, const LayerFacts&);

}  // namespace headwise
