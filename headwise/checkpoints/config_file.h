// SPDX-License-Identifier: Apache-2.0
// The config.json of a model's folder: one value each, checked. Not installed: it shows the JSON library.
#ifndef HEADWISE_CHECKPOINTS_CONFIG_FILE_H_
#define HEADWISE_CHECKPOINTS_CONFIG_FILE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "headwise/io/file_error.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// What a model's files say and cannot all be true, or a value that is none; what headwise merely does not serve is a
// plain FileError. Callers outside see FileError.
struct ContradictionError : FileError {
  using FileError::FileError;
};

// Every reader throws FileError that names the file and the key; those without "find" also when the key is missing. A
// value of another type or out of range is a ContradictionError.
class ConfigFile {
 public:
  // Throws as read_json_file does, and FileError when the file holds no object.
  explicit ConfigFile(const std::string& path);
  // The same of a text that is already here; `path` is for messages.
  ConfigFile(const std::string& path, std::string_view text);

  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& reason) const;
  // Throws ContradictionError.
  [[noreturn]] void contradict(const std::string& reason) const;

  // Null when there is no such key, or its value is null.
  const nlohmann::json* find(std::string_view key) const;

  std::string text(std::string_view key) const;
  // 1 to 2^28.
  Index size(std::string_view key) const;
  double number(std::string_view key) const;
  bool flag(std::string_view key) const;

  // A setting that changes the model into one that headwise does not run.
  template <class Value>
  void require_if_given(std::string_view key, const Value& only) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr || *value == only) return;
    fail(about(key) + "is " + shown(*value) + "; headwise runs " + nlohmann::json(only).dump());
  }

 private:
  void check_object() const;
  static std::string about(std::string_view key) { return "\"" + std::string(key) + "\" "; }
  static std::string shown(const nlohmann::json& value);
  const nlohmann::json& require(std::string_view key) const;

  std::string path_;
  nlohmann::json json_;
};

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_CONFIG_FILE_H_
