// SPDX-License-Identifier: Apache-2.0
// Every way the config.json of an encoder can lie: as JSON, and as a description of a model.
#ifndef HEADWISE_TESTS_HOSTILE_CONFIG_LIES_H_
#define HEADWISE_TESTS_HOSTILE_CONFIG_LIES_H_

#include <string>
#include <vector>

#include "tests/hostile/lie.h"
#include "tests/support/tiny_encoder.h"

namespace headwise {

inline std::vector<Lie> config_json_lies() {
  return {
      {"an empty file", "", "f: file ends before its JSON does (byte 0)"},
      {"a number", "7", "f: must be an object, got a number"},
      {"an array", "[]", "f: must be an object, got an array"},
      {"a NUL", std::string("\0", 1), "f: file has a NUL byte (byte 1)"},
      {"a byte order mark in the middle", "{\"a\": \xEF\xBB\xBF 1}",
       "f: file is not JSON: unexpected '\\xef' (byte 7)"},
      {"UTF-16", std::string("{\0}\0", 4), "f: file has a NUL byte (byte 2)"},
      {"half an object", "{\"model_type\": \"bert\"", "f: file ends before its JSON does (byte 21)"},
      {"a key twice", R"({"model_type": "bert", "model_type": "bert"})",
       "f: key 'model_type' is given twice (byte 35)"},
      {"thirty-three levels", std::string(33, '['), "f: file is nested deeper than 32 levels (byte 33)"},
      {"a million levels", std::string(1'000'000, '['), "f: file is nested deeper than 32 levels (byte 33)"},
      {"more than a megabyte", std::string(1'048'577, ' '),
       "f: file has 1048577 bytes, more than the 1048576 that are read"},
      {"blanks alone", std::string(1000, ' '), "f: file ends before its JSON does (byte 1000)"},
      {"a hundred thousand lines", std::string(100'000, '\n'),
       "f: file has a string, a number or a run of blanks that is too long to read (byte 65537)"},
      {"a number past the doubles", R"({"layer_norm_eps": 1e999})", "f: file has a number out of range (byte 25)"},
      {"NaN", R"({"layer_norm_eps": NaN})", "f: file is not JSON: unexpected 'N' (byte 20)"},
      {"Infinity", R"({"layer_norm_eps": Infinity})", "f: file is not JSON: unexpected 'I' (byte 20)"},
  };
}

// The good config with one part replaced.
inline std::string changed_config(const std::string& from, const std::string& to) {
  std::string text = tiny_encoder_json();
  return text.replace(text.find(from), from.size(), to);
}

inline std::vector<Lie> config_value_lies() {
  const auto size = [](const std::string& key, const std::string& old, const std::string& value) {
    const std::string shown = value == "1e3" ? "1000.0" : value;
    return Lie{"a size that is none", changed_config("\"" + key + "\": " + old, "\"" + key + "\": " + value),
               "f: \"" + key + "\" must be a whole number from 1 to 268435456, got " + shown};
  };
  return {
      {"no family", changed_config("\"model_type\"", "\"type\""), "f: has no \"model_type\""},
      {"a family of null", changed_config("\"bert\"", "null"), "f: \"model_type\" must be a string, got null"},
      {"an unknown family", changed_config("\"bert\"", "\"bart\""),
       "f: \"model_type\" is 'bart'; headwise loads: bert"},
      {"a family that moves the cursor", changed_config("\"bert\"", "\"\\u001b[2J\""),
       "f: \"model_type\" is '\\x1b[2J'; headwise loads: bert"},
      size("num_hidden_layers", "2", "0"),
      size("num_hidden_layers", "2", "-1"),
      size("num_hidden_layers", "2", "2.5"),
      size("num_attention_heads", "2", "1e3"),
      size("hidden_size", "8", "268435457"),
      size("vocab_size", "20", "18446744073709551615"),
      size("vocab_size", "20", "true"),
      size("type_vocab_size", "2", "null"),
      {"an epsilon that is text", changed_config("1e-12", "\"1e-12\""),
       "f: \"layer_norm_eps\" must be a number, got '1e-12'"},
      {"a negative epsilon", changed_config("1e-12", "-1"),
       "f: Encoder: layer_norm_eps must be a finite number >= 0, got -1"},
      {"heads that do not divide", changed_config("\"hidden_size\": 8", "\"hidden_size\": 7"),
       "f: Encoder: hidden=7 is not divisible by heads=2; nearest valid heads: 1, 7"},
      {"another activation", changed_config("\"gelu\"", "\"swish\""),
       "f: Encoder: activation must be \"gelu\", got \"swish\""},
      {"a decoder", changed_config("{", "{\"is_decoder\": true, "), "f: \"is_decoder\" is true; headwise runs false"},
  };
}

inline std::vector<Lie> config_lies() { return all_of({config_json_lies(), config_value_lies()}); }

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_CONFIG_LIES_H_
