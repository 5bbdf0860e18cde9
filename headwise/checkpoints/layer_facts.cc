// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/layer_facts.h"

#include <fmt/format.h>

#include <charconv>
#include <span>

#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr std::string_view kFormat = "headwise-layer";
constexpr std::string_view kVersion = "1";
constexpr LayerKind kKinds[] = {LayerKind::kMultiHeadAttention, LayerKind::kCausalSelfAttention,
                                LayerKind::kMultiHeadAttentionWrapper, LayerKind::kMultiHeadAttentionLayer};

class MetadataReader {
 public:
  MetadataReader(std::string_view path, const std::map<std::string, std::string>& metadata)
      : path_(path), metadata_(metadata) {}

  const std::string* find(const std::string& key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
  }

  template <class Number>
  void read(const std::string& key, const char* expected, std::optional<Number>& fact) const {
    const std::string* text = find(key);
    if (text == nullptr) return;
    Number number{};
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error != std::errc() || end != text->data() + text->size()) fail(key, expected);
    fact = number;
  }

  void read(const std::string& key, std::optional<bool>& fact) const {
    const std::string* text = find(key);
    if (text == nullptr) return;
    if (*text != "true" && *text != "false") fail(key, "true or false");
    fact = *text == "true";
  }

  [[noreturn]] void fail(const std::string& key, const char* expected) const {
    throw FileError(path_, fmt::format("metadata '{}' must be {}, got {}", key, expected, quote_name(*find(key))));
  }

 private:
  std::string_view path_;
  const std::map<std::string, std::string>& metadata_;
};

// "rotary" names the style, and a layer without it has no rotary positions. fmt writes doubles so that reading gives
// the same ones.
void add_rotary(const RotaryRule& rule, std::map<std::string, std::string>& metadata) {
  metadata["rotary"] = rotary_style_name(rule.style);
  metadata["rotary_dim"] = std::to_string(rule.rotary_dim);
  metadata["rotary_base"] = fmt::format("{}", rule.base);
  metadata["rotary_scaling"] = rotary_scaling_name(rule.scaling);
  metadata["rotary_factor"] = fmt::format("{}", rule.factor);
  metadata["rotary_low_freq_factor"] = fmt::format("{}", rule.low_freq_factor);
  metadata["rotary_high_freq_factor"] = fmt::format("{}", rule.high_freq_factor);
  metadata["rotary_original_context"] = std::to_string(rule.original_context);
  if (rule.scaling != RotaryScaling::kYarn) return;
  metadata["rotary_beta_fast"] = fmt::format("{}", rule.beta_fast);
  metadata["rotary_beta_slow"] = fmt::format("{}", rule.beta_slow);
  metadata["rotary_attention_factor"] = fmt::format("{}", rule.attention_factor);
  metadata["rotary_rounded"] = rule.rounded ? "true" : "false";
}

template <class Value>
void read_name(const MetadataReader& reader, const std::string& key, std::span<const Value> values,
               std::string_view (*name)(Value), Value& result) {
  const std::string* text = reader.find(key);
  if (text == nullptr) return;
  std::string names;
  for (const Value value : values) {
    if (name(value) == *text) {
      result = value;
      return;
    }
    names += (names.empty() ? "" : " or ") + std::string(name(value));
  }
  reader.fail(key, names.c_str());
}

template <class Number>
void read_number(const MetadataReader& reader, const std::string& key, const char* expected, Number& result) {
  std::optional<Number> number;
  reader.read(key, expected, number);
  if (number) result = *number;
}

std::optional<RotaryRule> read_rotary(const MetadataReader& reader) {
  if (reader.find("rotary") == nullptr) return std::nullopt;
  constexpr RotaryStyle kStyles[] = {RotaryStyle::kHalfSplit, RotaryStyle::kInterleaved};
  constexpr RotaryScaling kScalings[] = {RotaryScaling::kNone, RotaryScaling::kLinear, RotaryScaling::kLlama3,
                                         RotaryScaling::kYarn};
  RotaryRule rule;
  read_name<RotaryStyle>(reader, "rotary", kStyles, rotary_style_name, rule.style);
  read_name<RotaryScaling>(reader, "rotary_scaling", kScalings, rotary_scaling_name, rule.scaling);
  read_number(reader, "rotary_dim", "a whole number", rule.rotary_dim);
  read_number(reader, "rotary_base", "a number", rule.base);
  read_number(reader, "rotary_factor", "a number", rule.factor);
  read_number(reader, "rotary_low_freq_factor", "a number", rule.low_freq_factor);
  read_number(reader, "rotary_high_freq_factor", "a number", rule.high_freq_factor);
  read_number(reader, "rotary_original_context", "a whole number", rule.original_context);
  read_number(reader, "rotary_beta_fast", "a number", rule.beta_fast);
  read_number(reader, "rotary_beta_slow", "a number", rule.beta_slow);
  read_number(reader, "rotary_attention_factor", "a number", rule.attention_factor);
  std::optional<bool> rounded;
  reader.read("rotary_rounded", rounded);
  if (rounded) rule.rounded = *rounded;
  return rule;
}

std::optional<QueryKeyNorm> read_query_key_norm(const MetadataReader& reader) {
  const std::string* name = reader.find("query_key_norm");
  if (name == nullptr) return std::nullopt;
  QueryKeyNorm norm;
  norm.whole = *name == "whole";
  if (*name != query_key_norm_name(norm)) reader.fail("query_key_norm", "per_head or whole");
  read_number(reader, "query_key_norm_eps", "a number", norm.eps);
  return norm;
}

}  // namespace

std::string_view layer_kind_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::kMultiHeadAttention:
      return "MultiHeadAttention";
    case LayerKind::kCausalSelfAttention:
      return "CausalSelfAttention";
    case LayerKind::kMultiHeadAttentionWrapper:
      return "MultiHeadAttentionWrapper";
    case LayerKind::kMultiHeadAttentionLayer:
      return "MultiHeadAttentionLayer";
  }
  return "";
}

LayerKind parse_layer_kind(std::string_view name) {
  std::string names;
  for (const LayerKind kind : kKinds) {
    if (layer_kind_name(kind) == name) return kind;
    names += (names.empty() ? "" : ", ") + std::string(layer_kind_name(kind));
  }
  throw ArgumentError(fmt::format("kind must be one of {}, got {}", names, quote_name(name)));
}

std::map<std::string, std::string> to_metadata(const LayerFacts& facts) {
  std::map<std::string, std::string> metadata{{"format", std::string(kFormat)}, {"version", std::string(kVersion)}};
  if (facts.kind) metadata["kind"] = layer_kind_name(*facts.kind);
  if (facts.num_heads) metadata["num_heads"] = std::to_string(*facts.num_heads);
  if (facts.causal) metadata["causal"] = *facts.causal ? "true" : "false";
  if (facts.dropout) metadata["dropout"] = fmt::format("{}", *facts.dropout);
  if (facts.context_length) metadata["context_length"] = std::to_string(*facts.context_length);
  if (facts.seed) metadata["seed"] = std::to_string(*facts.seed);
  if (facts.window_left) metadata["window_left"] = std::to_string(*facts.window_left);
  if (facts.query_key_norm) {
    metadata["query_key_norm"] = query_key_norm_name(*facts.query_key_norm);
    metadata["query_key_norm_eps"] = fmt::format("{}", facts.query_key_norm->eps);
  }
  if (facts.rotary) add_rotary(*facts.rotary, metadata);
  return metadata;
}

LayerFacts facts_from_metadata(std::string_view path, const std::map<std::string, std::string>& metadata) {
  LayerFacts facts;
  const MetadataReader reader(path, metadata);
  // Other writers use other keys, and the same ones with another meaning.
  const std::string* format = reader.find("format");
  if (format == nullptr || *format != kFormat) return facts;
  const std::string* version = reader.find("version");
  if (version == nullptr || *version != kVersion) {
    throw FileError(path, fmt::format("layer file version {} is unknown; headwise reads version {}",
                                      version == nullptr ? "(none)" : quote_name(*version), kVersion));
  }
  if (const std::string* kind = reader.find("kind")) {
    try {
      facts.kind = parse_layer_kind(*kind);
    } catch (const ArgumentError& error) {
      throw FileError(path, std::string("metadata: ") + error.what());
    }
  }
  reader.read("num_heads", "a whole number", facts.num_heads);
  reader.read("causal", facts.causal);
  reader.read("dropout", "a number", facts.dropout);
  reader.read("context_length", "a whole number", facts.context_length);
  reader.read("seed", "a whole number", facts.seed);
  reader.read("window_left", "a whole number", facts.window_left);
  facts.query_key_norm = read_query_key_norm(reader);
  facts.rotary = read_rotary(reader);
  return facts;
}

}  // namespace headwise
