// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string_view>

#include "headwise/checkpoints/encoder_rules.h"
#include "headwise/checkpoints/load_encoder.h"
#include "headwise/io/file_error.h"
#include "headwise/io/json_file.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

class Config {
 public:
  explicit Config(const std::string& path) : path_(path), json_(read_json_file(path)) {
    if (!json_.is_object())
      fail("must be an object, got " + std::string(json_.is_array() ? "an " : "a ") + json_.type_name());
  }

  [[noreturn]] void fail(const std::string& reason) const { throw FileError(path_, reason); }

  const nlohmann::json* find(std::string_view key) const {
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }

  std::string text(std::string_view key) const {
    const nlohmann::json& value = require(key);
    if (!value.is_string()) fail(about(key) + "must be a string, got " + shown(value));
    return value.get<std::string>();
  }

  Index size(std::string_view key) const {
    const nlohmann::json& value = require(key);
    // Far above any model, and low enough that the product of two still counts bytes.
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 28;
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 || value.get<std::uint64_t>() > kLargest) {
      fail(about(key) + "must be a whole number from 1 to " + std::to_string(kLargest) + ", got " + shown(value));
    }
    return value.get<Index>();
  }

  double number(std::string_view key) const {
    const nlohmann::json& value = require(key);
    if (!value.is_number()) fail(about(key) + "must be a number, got " + shown(value));
    return value.get<double>();
  }

  // A setting that changes the model into one that headwise does not run.
  template <class Value>
  void require_if_given(std::string_view key, const Value& only) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr || value->is_null() || *value == only) return;
    fail(about(key) + "is " + shown(*value) + "; headwise runs " + nlohmann::json(only).dump());
  }

 private:
  static std::string about(std::string_view key) { return "\"" + std::string(key) + "\" "; }
  static std::string shown(const nlohmann::json& value) {
    if (value.is_structured()) return "an " + std::string(value.type_name());
    if (value.is_string()) return quote_name(value.get_ref<const std::string&>());
    return value.dump();
  }
  const nlohmann::json& require(std::string_view key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) fail("has no \"" + std::string(key) + "\"");
    return *value;
  }

  std::string path_;
  nlohmann::json json_;
};

}  // namespace

EncoderConfig read_encoder_config(const std::string& path) {
  const Config json(path);
  const std::string model_type = json.text("model_type");
  std::string known;
  for (const EncoderFamily& family : encoder_families()) {
    if (!known.empty()) known += ", ";
    known += family.model_type;
  }
  bool found = false;
  for (const EncoderFamily& family : encoder_families()) found |= family.model_type == model_type;
  if (!found) json.fail("\"model_type\" is " + quote_name(model_type) + "; headwise loads: " + known);
  json.require_if_given("position_embedding_type", "absolute");
  json.require_if_given("is_decoder", false);
  json.require_if_given("add_cross_attention", false);

  EncoderConfig config;
  config.layers = json.size("num_hidden_layers");
  config.heads = json.size("num_attention_heads");
  config.hidden = json.size(config_key(EncoderSize::kHidden));
  config.intermediate = json.size(config_key(EncoderSize::kIntermediate));
  config.vocab = json.size(config_key(EncoderSize::kVocab));
  config.positions = json.size(config_key(EncoderSize::kPositions));
  config.type_vocab = json.size(config_key(EncoderSize::kTypeVocab));
  config.layer_norm_eps = json.number("layer_norm_eps");
  config.activation = json.text("hidden_act");
  try {
    check_config(config);
  } catch (const std::invalid_argument& error) {
    json.fail(error.what());
  }
  return config;
}

}  // namespace headwise
