// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/layer_layout.h"

#include <string>

#include "headwise/io/file_error.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

// How the projections of each kind are named; the first that the file holds tells the kind.
struct NameRule {
  const char* query;
  const char* key;
  std::optional<LayerKind> kind;  // nothing: the output projection decides, or the call
};

constexpr NameRule kRules[] = {
    {"heads.0.W_query", "heads.0.W_key", LayerKind::kMultiHeadAttentionWrapper},
    {"query_weight", "key_weight", LayerKind::kMultiHeadAttentionLayer},
    {"W_query", "W_key", std::nullopt},
};

// The rows of a matrix that must have so many columns; a layer of any size could be claimed otherwise.
Index rows_of(const SafetensorsFile& file, const std::string& name, Index columns, const char* meaning) {
  const NamedTensor tensor = file.tensor(name);
  if (tensor.shape.size() == 2 && tensor.shape[1] == columns) return tensor.shape[0];
  throw FileError(file.path(), "tensor " + quote_name(name) + " must be (d_out, " + meaning + "=" +
                                   std::to_string(columns) + "), got " + format_shape(tensor.shape));
}

Index columns_of(const SafetensorsFile& file, const std::string& name) {
  const NamedTensor tensor = file.tensor(name);
  if (tensor.shape.size() == 2) return tensor.shape[1];
  throw FileError(file.path(),
                  "tensor " + quote_name(name) + " must be (d_out, d_in), got " + format_shape(tensor.shape));
}

// The heads of a wrapper, which are all alike.
Index count_heads(const SafetensorsFile& file, Index head_dim, Index d_in) {
  for (Index heads = 1;; ++heads) {
    const std::string name = "heads." + std::to_string(heads) + ".W_query.weight";
    if (!file.contains(name)) return heads;
    if (file.tensor(name).shape == std::vector{head_dim, d_in}) continue;
    throw FileError(file.path(), "tensor " + quote_name(name) + " must be " +
                                     format_shape(std::vector{head_dim, d_in}) + " as that of head 0, got " +
                                     format_shape(file.tensor(name).shape));
  }
}

}  // namespace

LayerLayout read_layer_layout(const SafetensorsFile& file) {
  for (const NameRule& rule : kRules) {
    const std::string query(rule.query);
    if (!file.contains(query + ".weight")) continue;
    LayerLayout layout;
    layout.kind = rule.kind;
    layout.d_in = columns_of(file, query + ".weight");
    layout.query_rows = rows_of(file, query + ".weight", layout.d_in, "d_in");
    layout.key_rows = rows_of(file, std::string(rule.key) + ".weight", layout.d_in, "d_in");
    layout.qkv_bias = file.contains(query + ".bias");
    if (rule.kind == LayerKind::kMultiHeadAttentionWrapper) {
      const Index heads = count_heads(file, layout.query_rows, layout.d_in);
      layout.num_heads = heads;
      layout.query_rows *= heads;
      layout.key_rows *= heads;
    }
    layout.d_out = layout.query_rows;
    layout.out_proj = file.contains("out_proj.weight");
    if (layout.out_proj) {
      layout.d_out = rows_of(file, "out_proj.weight", layout.query_rows, "heads * head_dim");
      layout.out_bias = file.contains("out_proj.bias");
      // Of the two classes with these names only one has an output projection.
      if (!layout.kind) layout.kind = LayerKind::kMultiHeadAttention;
    }
    return layout;
  }
  throw FileError(file.path(),
                  "there is no attention layer: looked for 'W_query.weight', 'heads.0.W_query.weight' and "
                  "'query_weight.weight' among its " +
                      std::to_string(file.header().entries.size()) + " tensors");
}

}  // namespace headwise
