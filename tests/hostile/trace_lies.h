// SPDX-License-Identifier: Apache-2.0
// Well-formed safetensors files that lie as traces.
#ifndef HEADWISE_TESTS_HOSTILE_TRACE_LIES_H_
#define HEADWISE_TESTS_HOSTILE_TRACE_LIES_H_

#include <map>
#include <string>
#include <vector>

#include "tests/hostile/layer_lies.h"
#include "tests/hostile/lie.h"

namespace headwise {

inline std::map<std::string, std::string> good_trace_facts() {
  return {{"format", "headwise-trace"},
          {"version", "1"},
          {"model", "m"},
          {"layers", "1"},
          {"heads", "2"},
          {"kv_heads", "1"},
          {"head_dim", "2"},
          {"causal", "false"},
          {"tokens", "[]"}};
}

inline std::vector<Lie> trace_lies() {
  const auto with = [](const std::string& key, const std::string& value) {
    auto facts = good_trace_facts();
    facts[key] = value;
    return zeros_file({}, facts);
  };
  const auto counted = [&](const std::string& key, const std::string& value) {
    return Lie{"a count that is none", with(key, value),
               "f: metadata '" + key + "' must be a whole number from 1 to 1000000, got '" + value + "'"};
  };
  const auto with_tokens = [&](const std::string& tokens) { return with("tokens", tokens); };
  return {
      {"a layer", zeros_file(good_zeros(), good_facts()), "f: is not a trace: metadata 'format' is 'headwise-layer'"},
      {"no metadata", zeros_file({}, {}), "f: is not a trace: there is no metadata 'format'"},
      {"a version to come", with("version", "2"), "f: trace version '2' is unknown; headwise reads version 1"},
      counted("layers", "0"),
      counted("layers", "1000001"),
      counted("heads", "1e3"),
      counted("kv_heads", ""),
      counted("head_dim", "99999999999999999999"),
      {"heads that do not divide", with("kv_heads", "3"), "f: heads=2 is not divisible by kv_heads=3"},
      {"tokens that are no JSON", with_tokens("["), "f: metadata 'tokens': file ends before its JSON does (byte 1)"},
      {"tokens that are a number", with_tokens("7"), "f: metadata 'tokens' must be an array of arrays"},
      {"tokens too deep", with_tokens("[[[]]]"), "f: metadata 'tokens': file is nested deeper than 2 levels (byte 3)"},
      {"a sentence without tensors", with_tokens("[[]]"), "f: there is no tensor 'sentences.0.ids'"},
  };
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_TRACE_LIES_H_
