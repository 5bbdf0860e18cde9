// SPDX-License-Identifier: Apache-2.0
// Small JSON files such as config.json, as a tree. Not installed: it shows the JSON library.
#ifndef HEADWISE_IO_JSON_FILE_H_
#define HEADWISE_IO_JSON_FILE_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace headwise {

struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 20;
  int depth = 32;
};

// Throws FileNotFound, or FileError for a file that is too large, not JSON, nested too deep or names a key twice.
nlohmann::json read_json_file(const std::string& path, const JsonLimits& limits = {});

// The same of a text that is already here; `path` is for messages.
nlohmann::json parse_json(std::string_view path, std::string_view text, const JsonLimits& limits = {});

}  // namespace headwise

#endif  // HEADWISE_IO_JSON_FILE_H_
