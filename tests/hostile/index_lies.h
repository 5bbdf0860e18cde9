// SPDX-License-Identifier: Apache-2.0
// Every way a model.safetensors.index.json can lie, beside a.safetensors (W_query.weight) and b.safetensors
// (W_key.weight, W_value.weight).
#ifndef HEADWISE_TESTS_HOSTILE_INDEX_LIES_H_
#define HEADWISE_TESTS_HOSTILE_INDEX_LIES_H_

#include <string>
#include <vector>

#include "tests/hostile/layer_lies.h"
#include "tests/hostile/lie.h"
#include "tests/support/temporary_folder.h"

namespace headwise {

inline void write_shards(const TemporaryFolder& folder) {
  folder.write("a.safetensors", zeros_file({{"W_query.weight", {4, 2}}}, {}));
  folder.write("b.safetensors", zeros_file({{"W_key.weight", {4, 2}}, {"W_value.weight", {4, 2}}}, {}));
}

inline std::string index_of(const std::string& query, const std::string& key, const std::string& value) {
  return R"({"weight_map":{"W_query.weight":")" + query + R"(","W_key.weight":")" + key + R"(","W_value.weight":")" +
         value + "\"}}";
}

inline std::vector<Lie> index_lies() {
  const std::string a = "a.safetensors", b = "b.safetensors";
  const auto leads_out = [&](const std::string& file, int byte) {
    return Lie{"a file in another folder", index_of(file, b, b),
               "f: tensor 'W_query.weight' is said to lie in '" + file +
                   "', which is not the name of a file beside the index (byte " + std::to_string(byte) + ")"};
  };
  return {
      {"an empty file", "", "f: index ends before its JSON does (byte 0)"},
      {"an array", "[]", "f: index must be an object (byte 1)"},
      {"null", "null", "f: index must be an object (byte 4)"},
      {"no map", "{\"metadata\":{}}", "f: index has no \"weight_map\""},
      {"a map that is an array", R"({"weight_map":[]})", "f: \"weight_map\" must be an object (byte 15)"},
      {"a map that is text", R"({"weight_map":"a"})", "f: \"weight_map\" must be an object (byte 17)"},
      {"two maps", R"({"weight_map":{},"weight_map":{}})", "f: \"weight_map\" is given twice (byte 29)"},
      {"a tensor twice", R"({"weight_map":{"x":"a","x":"a"}})", "f: tensor 'x' is listed twice (byte 26)"},
      {"a file that is a number", R"({"weight_map":{"x":1}})", "f: the file of tensor 'x' must be a string (byte 21)"},
      {"a file that is an array", R"({"weight_map":{"x":["a"]}})",
       "f: the file of tensor 'x' must be a string, got an array (byte 20)"},
      {"a million levels", R"({"metadata":)" + std::string(1'000'000, '['),
       "f: index is nested deeper than 32 levels (byte 44)"},
      {"metadata that end early", R"({"metadata":{"total_size":1})", "f: index ends before its JSON does (byte 28)"},
      {"33 MiB", std::string(33 << 20, ' '), "f: file has 34603008 bytes, more than the 33554432 that are read"},
      leads_out("../a.safetensors", 50),
      leads_out("/dev/zero", 43),
      leads_out("..", 36),
      leads_out("", 34),
      {"a file that is missing", index_of("c.safetensors", b, b),
       "f: tensor 'W_query.weight' is said to lie in 'c.safetensors', which is missing"},
      {"a tensor in the wrong file", index_of(a, a, b),
       "f: tensor 'W_key.weight' is said to lie in 'a.safetensors', which does not hold it"},
      {"a tensor that is not listed",
       R"({"weight_map":{"W_query.weight":"a.safetensors","W_key.weight":"b.safetensors"}})",
       "f: 'b.safetensors' holds tensor 'W_value.weight', which the index does not list"},
      {"a tensor that is nowhere", R"({"weight_map":{"W_query.weight":"a.safetensors","x":"a.safetensors"}})",
       "f: tensor 'x' is said to lie in 'a.safetensors', which does not hold it"},
  };
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_INDEX_LIES_H_
