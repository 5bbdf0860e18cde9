// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/config_file.h"

#include <cstdint>

#include "headwise/io/file_error.h"
#include "headwise/io/json_file.h"

namespace headwise {

ConfigFile::ConfigFile(const std::string& path) : path_(path), json_(read_json_file(path)) { check_object(); }

ConfigFile::ConfigFile(const std::string& path, std::string_view text) : path_(path), json_(parse_json(path, text)) {
  check_object();
}

void ConfigFile::check_object() const {
  if (json_.is_object()) return;
  fail("must be an object, got " + std::string(json_.is_array() ? "an " : "a ") + json_.type_name());
}

void ConfigFile::fail(const std::string& reason) const { throw FileError(path_, reason); }

void ConfigFile::contradict(const std::string& reason) const { throw ContradictionError(path_, reason); }

const nlohmann::json* ConfigFile::find(std::string_view key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

std::string ConfigFile::text(std::string_view key) const {
  const nlohmann::json& value = require(key);
  if (!value.is_string()) contradict(about(key) + "must be a string, got " + shown(value));
  return value.get<std::string>();
}

Index ConfigFile::size(std::string_view key) const {
  const nlohmann::json& value = require(key);
  // Far above any model, and low enough that the product of two still counts bytes.
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 28;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 || value.get<std::uint64_t>() > kLargest) {
    contradict(about(key) + "must be a whole number from 1 to " + std::to_string(kLargest) + ", got " + shown(value));
  }
  return value.get<Index>();
}

double ConfigFile::number(std::string_view key) const {
  const nlohmann::json& value = require(key);
  if (!value.is_number()) contradict(about(key) + "must be a number, got " + shown(value));
  return value.get<double>();
}

bool ConfigFile::flag(std::string_view key) const {
  const nlohmann::json& value = require(key);
  if (!value.is_boolean()) contradict(about(key) + "must be true or false, got " + shown(value));
  return value.get<bool>();
}

std::string ConfigFile::shown(const nlohmann::json& value) {
  if (value.is_structured()) return "an " + std::string(value.type_name());
  if (value.is_string()) return quote_name(value.get_ref<const std::string&>());
  return value.dump();
}

const nlohmann::json& ConfigFile::require(std::string_view key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) fail("has no \"" + std::string(key) + "\"");
  return *found;
}

}  // namespace headwise
