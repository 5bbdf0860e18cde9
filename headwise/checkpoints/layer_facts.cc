// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/layer_facts.h"

#include <fmt/format.h>

#include <charconv>

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
  return facts;
}

}  // namespace headwise
