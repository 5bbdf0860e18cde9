// SPDX-License-Identifier: Apache-2.0
// Every way the comparison.json of `headwise train` can lie: as JSON, and as a description of runs.
#ifndef HEADWISE_TESTS_HOSTILE_COMPARISON_LIES_H_
#define HEADWISE_TESTS_HOSTILE_COMPARISON_LIES_H_

#include <string>
#include <vector>

#include "tests/hostile/lie.h"

namespace headwise {

inline std::string good_comparison() {
  return R"({"format": "headwise-comparison", "version": "1", "heads": [1, 2], "seeds": 2,
 "decoder": {"model_type": "nanogpt", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_inner": 32, "block_size": 4,
  "vocab_size": 2, "bias": false, "tie_word_embeddings": true, "activation_function": "gelu",
  "layer_norm_epsilon": 1e-05, "dropout": 0.0, "tokenizer": "bytes", "bytes": [97, 98]},
 "training": {"batch": 2, "steps": 3, "learning_rate": 0.001, "last_learning_rate": 0.0001, "warm_up": 0,
  "beta1": 0.9, "beta2": 0.99, "eps": 1e-08, "weight_decay": 0.1, "clip": 1.0, "evaluate_every": 0, "seed": "7"},
 "text": "text.txt", "text_fingerprint": "100 bytes, fnv1a 0123456789abcdef"})";
}

// The good file with one part replaced.
inline std::string changed_comparison(const std::string& from, const std::string& to) {
  std::string text = good_comparison();
  return text.replace(text.find(from), from.size(), to);
}

inline std::vector<Lie> comparison_lies() {
  const auto lie = [](const char* what, const std::string& from, const std::string& to, const std::string& message) {
    return Lie{what, changed_comparison(from, to), "f: " + message};
  };
  const std::string size = "must be a whole number from 1 to 268435456, got ";
  return {
      {"an empty file", "", "f: file ends before its JSON does (byte 0)"},
      {"an array", "[]", "f: must be an object, got an array"},
      {"an empty object", "{}", "f: has no \"format\""},
      {"half a file", good_comparison().substr(0, 60), "f: file ends before its JSON does (byte 60)"},
      lie("another format", "headwise-comparison", "headwise-training",
          "is no comparison of training runs: \"format\" is 'headwise-training'"),
      lie("a later version", "\"1\"", "\"2\"", "comparison version '2' is unknown; headwise reads version 1"),
      lie("no heads", "[1, 2]", "[]", "\"heads\" must be an array of one head count or more"),
      lie("heads that are no array", "[1, 2]", "2", "\"heads\" must be an array of one head count or more"),
      lie("a head count below 0", "[1, 2]", "[1, -2]", "\"heads\" must be an array of whole numbers"),
      lie("a head count of 0", "[1, 2]", "[1, 0]", "\"heads\": Decoder: heads must be at least 1, got 0"),
      lie("heads past an Index", "[1, 2]", "[18446744073709551615]",
          "\"heads\": Decoder: heads must be at least 1, got -1"),
      lie("heads that do not divide", "[1, 2]", "[1, 3]",
          "\"heads\": Decoder: hidden=8 is not divisible by heads=3; nearest valid heads: 2, 4"),
      lie("a head count twice", "[1, 2]", "[2, 2]", "\"heads\" names a count twice"),
      lie("no seeds", "\"seeds\": 2,", "", "has no \"seeds\""),
      lie("seeds of 0", "\"seeds\": 2", "\"seeds\": 0", "\"seeds\" " + size + "0"),
      lie("no decoder", "\"decoder\"", "\"decode\"", "has no \"decoder\""),
      lie("a decoder that is no object", "\"decoder\": {", "\"decoder\": 3, \"other\": {",
          "\"decoder\": must be an object, got a number"),
      lie("a layer count as text", "\"n_layer\": 1", "\"n_layer\": \"1\"", "\"decoder\": \"n_layer\" " + size + "'1'"),
      lie("no training", "\"training\"", "\"train\"", "has no \"training\""),
      lie("a batch of 0", "\"batch\": 2", "\"batch\": 0", "\"training\": \"batch\" " + size + "0"),
      lie("a learning rate of 0", "\"learning_rate\": 0.001", "\"learning_rate\": 0",
          "\"training\": training: learning_rate must be a finite number > 0, got 0"),
      lie("a seed that is none", "\"7\"", "\"-7\"",
          "\"training\": \"seed\" must be the digits of a number below 2^64, got '-7'"),
      lie("no text", "\"text\": \"text.txt\",", "", "has no \"text\""),
      lie("a text that is no path", "\"text.txt\"", "7", "\"text\" must be a string, got 7"),
  };
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_COMPARISON_LIES_H_
