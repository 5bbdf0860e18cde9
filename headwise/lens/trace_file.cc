// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/trace_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/io/json_file.h"
#include "headwise/io/safetensors.h"
#include "headwise/io/utf8.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

constexpr const char* kFormat = "headwise-trace";
constexpr const char* kVersion = "1";

std::string ids_name(std::size_t sentence) { return fmt::format("sentences.{}.ids", sentence); }

std::string layer_name(std::size_t sentence, std::size_t layer, const char* what) {
  return fmt::format("sentences.{}.layers.{}.{}", sentence, layer, what);
}

template <class T, int Rank>
NamedTensor named(std::string name, const Tensor<T, Rank>& tensor) {
  return {std::move(name),
          kDTypeOf<T>,
          {tensor.shape().begin(), tensor.shape().end()},
          reinterpret_cast<const std::byte*>(tensor.data())};
}

class TraceReader {
 public:
  explicit TraceReader(const std::string& path) : file_(path) {}

  AttentionTrace read() {
    if (text("format") != kFormat) fail("is not a trace: metadata 'format' is " + quote_name(text("format")));
    if (text("version") != kVersion) {
      fail("trace version " + quote_name(text("version")) + " is unknown; headwise reads version " + kVersion);
    }
    AttentionTrace trace;
    trace.model = text("model");
    trace.layers = count("layers");
    trace.heads = count("heads");
    trace.kv_heads = count("kv_heads");
    trace.head_dim = count("head_dim");
    trace.causal = text("causal") == "true";
    if (trace.heads % trace.kv_heads != 0) {
      fail(fmt::format("heads={} is not divisible by kv_heads={}", trace.heads, trace.kv_heads));
    }
    read_sentences(trace);
    return trace;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { throw FileError(file_.path(), reason); }

  const std::string& text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) fail("is not a trace: there is no metadata " + quote_name(key));
    return found->second;
  }

  Index count(const std::string& key) const {
    const std::string& digits = text(key);
    Index value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    // A trace holds a tensor for each layer and an axis for each head: none has a million.
    if (error == std::errc() && end == digits.data() + digits.size() && value >= 1 && value <= 1'000'000) return value;
    fail("metadata " + quote_name(key) + " must be a whole number from 1 to 1000000, got " + quote_name(digits));
  }

  void read_sentences(AttentionTrace& trace) {
    const nlohmann::json tokens =
        parse_json(file_.path() + ": metadata 'tokens'", text("tokens"), {.bytes = std::size_t{1} << 22, .depth = 2});
    if (!tokens.is_array()) fail("metadata 'tokens' must be an array of arrays");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      TracedSentence sentence;
      sentence.ids = read_ids(ids_name(i));
      read_tokens(tokens[i], sentence);
      const Index seq = sentence.seq();
      for (std::size_t layer = 0; layer < static_cast<std::size_t>(trace.layers); ++layer) {
        sentence.layers.push_back({read_block(layer_name(i, layer, "queries"), {trace.heads, seq, trace.head_dim}),
                                   read_block(layer_name(i, layer, "keys"), {trace.kv_heads, seq, trace.head_dim})});
      }
      trace.sentences.push_back(std::move(sentence));
    }
  }

  void read_tokens(const nlohmann::json& tokens, TracedSentence& sentence) {
    if (!tokens.is_array() || tokens.size() != sentence.ids.size()) {
      fail(fmt::format("metadata 'tokens' must hold an array of {} strings for each sentence of as many ids",
                       sentence.ids.size()));
    }
    for (const nlohmann::json& token : tokens) {
      if (!token.is_string()) fail("metadata 'tokens' must hold strings");
      sentence.tokens.push_back(token.get<std::string>());
    }
  }

  std::vector<std::int64_t> read_ids(const std::string& name) const {
    const NamedTensor tensor = file_.tensor(name);
    if (tensor.dtype != DType::kInt64 || tensor.shape.size() != 1 || tensor.shape[0] < 1) {
      fail("tensor " + quote_name(name) + " must be int64 (seq,), got " + std::string(dtype_name(tensor.dtype)) + " " +
           format_shape(tensor.shape));
    }
    std::vector<std::int64_t> ids(static_cast<std::size_t>(tensor.shape[0]));
    std::memcpy(ids.data(), tensor.data, tensor.bytes());
    return ids;
  }

  Tensor<float, 3> read_block(const std::string& name, const Shape<3>& shape) const {
    const NamedTensor tensor = file_.tensor(name);
    if (tensor.dtype != DType::kFloat32 || tensor.shape != std::vector<Index>(shape.begin(), shape.end())) {
      fail("tensor " + quote_name(name) + " must be float32 " + format_shape(shape) + ", got " +
           std::string(dtype_name(tensor.dtype)) + " " + format_shape(tensor.shape));
    }
    Tensor<float, 3> block(shape);
    std::memcpy(block.data(), tensor.data, tensor.bytes());
    return block;
  }

  SafetensorsFile file_;
};

std::string tokens_json(const AttentionTrace& trace) {
  nlohmann::json tokens = nlohmann::json::array();
  for (const TracedSentence& sentence : trace.sentences) {
    for (const std::string& token : sentence.tokens) {
      if (!is_utf8(token)) throw ArgumentError("save_trace: token " + quote_name(token) + " is not UTF-8");
    }
    tokens.push_back(sentence.tokens);
  }
  return tokens.dump();
}

}  // namespace

void save_trace(const std::string& path, const AttentionTrace& trace) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < trace.sentences.size(); ++i) {
    const TracedSentence& sentence = trace.sentences[i];
    tensors.push_back(
        {ids_name(i), DType::kInt64, {sentence.seq()}, reinterpret_cast<const std::byte*>(sentence.ids.data())});
    for (std::size_t layer = 0; layer < sentence.layers.size(); ++layer) {
      tensors.push_back(named(layer_name(i, layer, "queries"), sentence.layers[layer].queries));
      tensors.push_back(named(layer_name(i, layer, "keys"), sentence.layers[layer].keys));
    }
  }
  write_safetensors(path, tensors,
                    {{"format", kFormat},
                     {"version", kVersion},
                     {"model", trace.model},
                     {"layers", std::to_string(trace.layers)},
                     {"heads", std::to_string(trace.heads)},
                     {"kv_heads", std::to_string(trace.kv_heads)},
                     {"head_dim", std::to_string(trace.head_dim)},
                     {"causal", trace.causal ? "true" : "false"},
                     {"tokens", tokens_json(trace)}});
}

AttentionTrace load_trace(const std::string& path) { return TraceReader(path).read(); }

}  // namespace headwise
