// SPDX-License-Identifier: Apache-2.0
// Well-formed safetensors files that lie as layers: their metadata, their names and their shapes.
#ifndef HEADWISE_TESTS_HOSTILE_LAYER_LIES_H_
#define HEADWISE_TESTS_HOSTILE_LAYER_LIES_H_

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/hostile/lie.h"
#include "tests/support/file_bytes.h"

namespace headwise {

struct ShapedZeros {
  std::string name;
  std::vector<int> shape;
  std::string dtype = "F32";
};

inline std::string zeros_file(const std::vector<ShapedZeros>& tensors,
                              const std::map<std::string, std::string>& facts) {
  std::string header = "{\"__metadata__\":{", data;
  for (const auto& [key, value] : facts) header += (header.back() == '{' ? "\"" : ",\"") + key + "\":\"" + value + "\"";
  header += "}";
  for (const ShapedZeros& tensor : tensors) {
    std::size_t bytes = tensor.dtype == "F64" ? 8 : tensor.dtype == "F16" ? 2 : 4;
    std::string shape;
    for (const int extent : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
      bytes *= static_cast<std::size_t>(extent);
    }
    header += ",\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," + std::to_string(data.size() + bytes) + "]}";
    data += std::string(bytes, '\0');
  }
  return safetensors_bytes(header + "}", data);
}

inline std::map<std::string, std::string> good_facts() {
  return {{"format", "headwise-layer"}, {"version", "1"},   {"kind", "MultiHeadAttention"},
          {"num_heads", "2"},           {"causal", "true"}, {"dropout", "0"}};
}

inline std::vector<ShapedZeros> good_zeros() {
  return {{"W_query.weight", {4, 2}},
          {"W_key.weight", {4, 2}},
          {"W_value.weight", {4, 2}},
          {"out_proj.weight", {3, 4}},
          {"out_proj.bias", {3}}};
}

inline std::vector<Lie> layer_fact_lies() {
  const auto with = [](const std::string& key, const std::string& value) {
    auto facts = good_facts();
    facts[key] = value;
    return zeros_file(good_zeros(), facts);
  };
  const std::string count = "f: metadata 'num_heads' must be a whole number, got ";
  return {
      {"a version to come", with("version", "2"), "f: layer file version '2' is unknown; headwise reads version 1"},
      {"no version", with("version", ""), "f: layer file version '' is unknown; headwise reads version 1"},
      {"an unknown class", with("kind", "Attention"),
       "f: metadata: kind must be one of MultiHeadAttention, CausalSelfAttention, MultiHeadAttentionWrapper, "
       "MultiHeadAttentionLayer, got 'Attention'"},
      {"heads of NaN", with("num_heads", "NaN"), count + "'NaN'"},
      {"heads of 2.0", with("num_heads", "2.0"), count + "'2.0'"},
      {"heads of 2^64", with("num_heads", "18446744073709551616"), count + "'18446744073709551616'"},
      {"heads with a blank", with("num_heads", " 2"), count + "' 2'"},
      {"no heads", with("num_heads", "0"), "f: the 4 rows of the queries do not make 0 heads"},
      {"negative heads", with("num_heads", "-2"), "f: the 4 rows of the queries do not make -2 heads"},
      {"heads that do not divide", with("num_heads", "3"), "f: the 4 rows of the queries do not make 3 heads"},
      {"heads of 2^63 - 1", with("num_heads", "9223372036854775807"),
       "f: the 4 rows of the queries do not make 9223372036854775807 heads"},
      {"causal of 1", with("causal", "1"), "f: metadata 'causal' must be true or false, got '1'"},
      {"a dropout that is text", with("dropout", "none"), "f: metadata 'dropout' must be a number, got 'none'"},
      {"a context of nothing", with("context_length", ""),
       "f: metadata 'context_length' must be a whole number, got ''"},
      {"a negative context", with("context_length", "-1"),
       "f: MultiHeadAttention: context_length must be at least 1, got -1"},
      {"a negative seed", with("seed", "-1"), "f: metadata 'seed' must be a whole number, got '-1'"},
  };
}

inline std::vector<Lie> layer_shape_lies() {
  const auto with = [](std::size_t number, const ShapedZeros& tensor) {
    auto tensors = good_zeros();
    tensors[number] = tensor;
    return zeros_file(tensors, good_facts());
  };
  const std::string none = "f: there is no attention layer that headwise knows among its ";
  const std::string mixed = "; the weights of a layer are all float64, or float32, float16 and bfloat16";
  return {
      {"no weights", zeros_file({{"mask", {2, 2}}}, good_facts()), none + "1 tensors"},
      {"other weights", zeros_file({{"linear.weight", {2, 2}}}, good_facts()), none + "1 tensors"},
      {"queries without columns", with(0, {"W_query.weight", {8}}),
       "f: tensor 'W_query.weight' must be (d_out, d_in), got (8,)"},
      {"keys of another width", with(1, {"W_key.weight", {2, 4}}),
       "f: tensor 'W_key.weight' must be (d_out, d_in=2), got (2, 4)"},
      {"keys that make no heads", with(1, {"W_key.weight", {3, 2}}),
       "f: the 3 rows of the keys do not make heads of head_dim=2"},
      {"an output of another width", with(3, {"out_proj.weight", {4, 3}}),
       "f: tensor 'out_proj.weight' must be (d_out, heads * head_dim=4), got (4, 3)"},
      {"no keys", with(1, {"W_quay.weight", {4, 2}}), "f: there is no tensor 'W_key.weight'"},
      {"a float64 among float32", with(4, {"out_proj.bias", {3}, "F64"}), "f: tensor 'out_proj.bias' is F64" + mixed},
      {"whole numbers", with(0, {"W_query.weight", {4, 2}, "I32"}), "f: tensor 'W_query.weight' is I32" + mixed},
      {"no columns at all",
       zeros_file({{"W_query.weight", {4, 0}}, {"W_key.weight", {4, 0}}, {"W_value.weight", {4, 0}}}, good_facts()),
       "f: MultiHeadAttention: d_in must be at least 1, got 0"},
      {"heads of two widths",
       zeros_file({{"heads.0.W_query.weight", {1, 2}},
                   {"heads.0.W_key.weight", {1, 2}},
                   {"heads.0.W_value.weight", {1, 2}},
                   {"heads.1.W_query.weight", {2, 2}}},
                  {{"causal", "true"}}),
       "f: tensor 'heads.1.W_query.weight' must be (1, 2) as that of head 0, got (2, 2)"},
  };
}

inline std::vector<Lie> layer_lies() { return all_of({layer_fact_lies(), layer_shape_lies()}); }

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_LAYER_LIES_H_
