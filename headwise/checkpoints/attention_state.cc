// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/attention_state.h"

#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr const char* kParts[] = {"queries", "keys", "values"};

std::string_view weight_name(const AttentionNames& names, int part) {
  return part == 0 ? names.query : part == 1 ? names.key : names.value;
}

std::string_view bias_name(const AttentionNames& names, int part) {
  return part == 0 ? names.query_bias : part == 1 ? names.key_bias : names.value_bias;
}

NamedTensor named(NamedTensor tensor, std::string name) {
  tensor.name = std::move(name);
  return tensor;
}

// Reads a layer's tensors by what follows the layer's own name.
class Reader {
 public:
  Reader(const SafetensorsSet& set, const AttentionPlace& place) : set_(set), prefix_(place.prefix) {}

  NamedTensor operator()(std::string_view name) const {
    NamedTensor tensor = set_.tensor(prefix_ + std::string(name));
    const DType dtype = tensor.dtype;
    if (dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64) {
      return tensor;
    }
    throw FileError(set_.path(), "tensor " + quote_name(tensor.name) + " is " + std::string(dtype_name(dtype)) +
                                     "; weights are float16, bfloat16, float32 or float64");
  }

 private:
  const SafetensorsSet& set_;
  const std::string& prefix_;
};

// One of a tensor for each head, or the tensor.
std::vector<NamedTensor> of_each_head(const Reader& read, std::string_view name, Index heads) {
  std::vector<NamedTensor> parts;
  for (int head = 0; head < std::max<Index>(heads, 1); ++head) parts.push_back(read(numbered(name, head)));
  return parts;
}

void check_one_type(std::span<const NamedTensor> parts) {
  for (const NamedTensor& part : parts) {
    if (part.dtype == parts.front().dtype) continue;
    throw DTypeError("tensors " + quote_name(parts.front().name) + " and " + quote_name(part.name) + " are " +
                     std::string(dtype_name(parts.front().dtype)) + " and " + std::string(dtype_name(part.dtype)) +
                     "; what lies in one matrix is of one type");
  }
}

}  // namespace

AttentionState::AttentionState(const SafetensorsSet& set, const AttentionPlace& place, const AttentionRule& rule,
                               const AttentionShapes& shapes) {
  const Reader read(set, place);
  const AttentionNames& names = rule.names;
  const Index rows[] = {shapes.query_rows, shapes.key_rows, shapes.key_rows};
  const bool columns = rule.layout == WeightLayout::kQkvColumns;
  const auto stack = [&](const std::vector<NamedTensor>& parts) {
    if (parts.size() == 1) return parts.front();
    try {
      check_one_type(parts);
    } catch (const DTypeError& error) {
      throw FileError(set.path(), error.what());
    }
    return blocks_.stacked(parts);
  };
  const auto cut = [&](const NamedTensor& whole, int part) {
    Index first = 0;
    for (int before = 0; before < part; ++before) first += rows[before];
    return TensorBlocks::rows(whole, first, rows[part]);
  };
  if (names.key.empty()) {
    const NamedTensor whole = columns ? blocks_.turned(read(names.query)) : read(names.query);
    for (int part = 0; part < 3; ++part) weights_.push_back(cut(whole, part));
  } else {
    for (int part = 0; part < 3; ++part) {
      NamedTensor weight = stack(of_each_head(read, weight_name(names, part), shapes.named_heads));
      weights_.push_back(rule.layout == WeightLayout::kSeparateInOut ? blocks_.turned(weight) : weight);
    }
  }
  for (int part = 0; shapes.qkv_bias && part < 3; ++part) {
    biases_[part] = names.key_bias.empty() ? cut(read(names.query_bias), part)
                                           : stack(of_each_head(read, bias_name(names, part), shapes.named_heads));
  }
  if (shapes.out_proj) out_ = columns ? blocks_.turned(read(names.out)) : read(names.out);
  if (shapes.out_bias) out_bias_ = read(names.out_bias);
  if (shapes.query_key_norm) {
    query_norm_ = read(names.query_norm);
    key_norm_ = read(names.key_norm);
  }
}

void AttentionState::add_zero_qkv_bias() {
  for (int part = 0; part < 3; ++part) {
    if (!biases_[part]) biases_[part] = blocks_.zeros(weights_[part].dtype, weights_[part].shape[0]);
  }
}

void AttentionState::add_zero_out_bias() {
  if (out_ && !out_bias_) out_bias_ = blocks_.zeros(out_->dtype, out_->shape[0]);
}

std::vector<NamedTensor> AttentionState::arranged(const AttentionRule& rule, Index heads) {
  const AttentionNames& names = rule.names;
  const bool columns = rule.layout == WeightLayout::kQkvColumns;
  std::vector<NamedTensor> result;
  const auto add = [&](const NamedTensor& tensor, std::string_view name) {
    result.push_back(named(tensor, std::string(name)));
  };
  const auto stack = [&](std::vector<NamedTensor> parts, std::string_view name) {
    for (int part = 0; part < 3; ++part) parts[part].name = kParts[part];
    check_one_type(parts);
    return named(blocks_.stacked(parts), std::string(name));
  };
  const auto add_per_head = [&](const NamedTensor& tensor, std::string_view name) {
    const Index rows = tensor.shape[0] / heads;
    for (int head = 0; head < heads; ++head) add(TensorBlocks::rows(tensor, head * rows, rows), numbered(name, head));
  };
  const auto add_part = [&](const NamedTensor& tensor, std::string_view name) {
    if (rule.layout == WeightLayout::kPerHead) return add_per_head(tensor, name);
    const bool turn = rule.layout == WeightLayout::kSeparateInOut && tensor.shape.size() == 2;
    add(turn ? blocks_.turned(tensor) : tensor, name);
  };
  if (names.key.empty()) {
    const NamedTensor whole = stack(weights_, names.query);
    result.push_back(columns ? blocks_.turned(whole) : whole);
  } else {
    for (int part = 0; part < 3; ++part) add_part(weights_[part], weight_name(names, part));
  }
  if (has_qkv_bias()) {
    if (names.key_bias.empty()) {
      result.push_back(stack({*biases_[0], *biases_[1], *biases_[2]}, names.query_bias));
    } else {
      for (int part = 0; part < 3; ++part) add_part(*biases_[part], bias_name(names, part));
    }
  }
  if (out_) add(columns ? blocks_.turned(*out_) : *out_, names.out);
  if (out_bias_) add(*out_bias_, names.out_bias);
  if (query_norm_) add(*query_norm_, names.query_norm);
  if (key_norm_) add(*key_norm_, names.key_norm);
  return result;
}

}  // namespace headwise
