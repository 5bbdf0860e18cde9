// SPDX-License-Identifier: Apache-2.0
// Checkpoints by hand: tensors by name and shape, filled with numbers that differ.
#ifndef HEADWISE_TESTS_SUPPORT_CHECKPOINT_FILE_H_
#define HEADWISE_TESTS_SUPPORT_CHECKPOINT_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "headwise/io/safetensors.h"

namespace headwise {

struct ShapeOf {
  std::string name;
  std::vector<Index> shape;
};

// float32; every element of every tensor has another value.
inline void write_checkpoint(const std::string& path, const std::vector<ShapeOf>& shapes,
                             const std::map<std::string, std::string>& metadata = {}) {
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  float next = 0;
  for (const ShapeOf& one : shapes) {
    tensors.push_back({one.name, DType::kFloat32, one.shape, nullptr});
    values.emplace_back(static_cast<std::size_t>(tensors.back().elements()));
    for (float& value : values.back()) value = 0.01F * ++next;
    tensors.back().data = reinterpret_cast<const std::byte*>(values.back().data());
  }
  write_safetensors(path, tensors, metadata);
}

// The attention of one layer of `width` in a family's names.
inline std::vector<ShapeOf> gpt2_layer(const std::string& prefix, Index width) {
  return {{prefix + "c_attn.weight", {width, 3 * width}},
          {prefix + "c_attn.bias", {3 * width}},
          {prefix + "c_proj.weight", {width, width}},
          {prefix + "c_proj.bias", {width}}};
}

inline std::vector<ShapeOf> proj_layer(const std::string& prefix, Index width, Index kv_width) {
  return {{prefix + "q_proj.weight", {width, width}},
          {prefix + "k_proj.weight", {kv_width, width}},
          {prefix + "v_proj.weight", {kv_width, width}},
          {prefix + "o_proj.weight", {width, width}}};
}

inline std::vector<ShapeOf> bert_layer(const std::string& prefix, Index width) {
  std::vector<ShapeOf> layer;
  for (const char* part : {"self.query", "self.key", "self.value", "output.dense"}) {
    layer.push_back({prefix + part + ".weight", {width, width}});
    layer.push_back({prefix + part + ".bias", {width}});
  }
  layer.push_back({prefix + "output.LayerNorm.weight", {width}});
  layer.push_back({prefix + "output.LayerNorm.bias", {width}});
  return layer;
}

inline std::vector<ShapeOf> operator+(std::vector<ShapeOf> a, const std::vector<ShapeOf>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_CHECKPOINT_FILE_H_
