// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/known_mistakes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace headwise {
namespace {

double root(Index width) { return std::sqrt(static_cast<double>(width)); }

bool transpose_rows(PlainLayer& layer, RowRange rows) {
  if (rows.count != layer.d_in) return false;
  const Tensor<double, 2> before = layer.stacked;
  for (Index r = 0; r < rows.count; ++r) {
    for (Index c = 0; c < rows.count; ++c) layer.stacked(rows.first + r, c) = before(rows.first + c, r);
  }
  return true;
}

bool transpose_all(PlainLayer& layer) {
  return transpose_rows(layer, layer.sizes.query_rows()) && transpose_rows(layer, layer.sizes.key_rows()) &&
         transpose_rows(layer, layer.sizes.value_rows());
}

// Row r of the new stacked projection is row source(r) of the old one.
template <class Source>
bool reorder_rows(PlainLayer& layer, const Source& source) {
  if (layer.sizes.kv_heads != layer.sizes.heads) return false;
  const PlainLayer before = layer;
  for (Index r = 0; r < layer.stacked.size(0); ++r) {
    for (Index c = 0; c < layer.d_in; ++c) layer.stacked(r, c) = before.stacked(source(r), c);
    if (layer.stacked_bias) layer.stacked_bias(r) = before.stacked_bias(source(r));
  }
  return true;
}

// [Q | K | V] and, for each head, [q | k | v]: where row r of the one lies in the other.
Index blocks_to_heads(const AttentionSizes& sizes, Index r) {
  const Index part = r / sizes.query_width(), head = r % sizes.query_width() / sizes.head_dim;
  return (head * 3 + part) * sizes.head_dim + r % sizes.head_dim;
}
Index heads_to_blocks(const AttentionSizes& sizes, Index r) {
  const Index head = r / (3 * sizes.head_dim), part = r / sizes.head_dim % 3;
  return part * sizes.query_width() + head * sizes.head_dim + r % sizes.head_dim;
}

bool shift_parts(PlainLayer& layer, const Index (&parts)[3]) {
  const Index width = layer.sizes.query_width();
  return reorder_rows(layer, [&](Index r) { return parts[r / width] * width + r % width; });
}

bool change_window(PlainLayer& layer, AttentionRecipe& recipe, Index by) {
  recipe.window_shift = by;
  return layer.window_left && *layer.window_left + by >= 0;
}

bool masks(const PlainLayer& layer) { return layer.causal || layer.window_left; }

constexpr KnownMistake kMistakes[] = {
    {"view_without_transpose",
     "viewed straight to (batch, heads, seq, head_dim), and back the same way: tokens are mixed",
     [](PlainLayer&, AttentionRecipe& recipe) { return recipe.straight_split = recipe.straight_merge = true; }},
    {"split_without_transpose",
     "viewed straight to (batch, heads, seq, head_dim), then merged rightly: tokens are mixed",
     [](PlainLayer&, AttentionRecipe& recipe) { return recipe.straight_split = true; }},
    {"merge_without_transpose", "split rightly, but merged without the transpose back: tokens are mixed",
     [](PlainLayer&, AttentionRecipe& recipe) { return recipe.straight_merge = true; }},
    {"no_head_axis", "no head axis: one softmax over all columns, single-head attention",
     [](PlainLayer& layer, AttentionRecipe&) {
       const bool can = layer.sizes.kv_heads == layer.sizes.heads && !layer.rotary;
       layer.sizes = {1, 1, layer.sizes.query_width()};
       return can;
     }},
    {"scale_by_d_out", "scores divided by sqrt(d_out) in place of sqrt(head_dim)",
     [](PlainLayer& layer, AttentionRecipe& recipe) {
       recipe.scale = 1 / root(layer.sizes.query_width());
       return true;
     }},
    {"no_scale", "scores not divided by sqrt(head_dim)",
     [](PlainLayer&, AttentionRecipe& recipe) {
       recipe.scale = 1;
       return true;
     }},
    {"softmax_over_queries", "softmax over the queries in place of the keys",
     [](PlainLayer&, AttentionRecipe& recipe) { return recipe.softmax_over_queries = true; }},
    {"softmax_twice", "softmax applied twice, the mask before each",
     [](PlainLayer&, AttentionRecipe& recipe) { return recipe.softmax_twice = true; }},
    {"softmax_twice_unmasked", "softmax applied twice, the second time over the masked zeros too",
     [](PlainLayer& layer, AttentionRecipe& recipe) {
       recipe.softmax_twice = recipe.second_softmax_sees_all = true;
       return masks(layer);
     }},
    {"mask_after_softmax", "masked after the softmax, so that the weights no longer sum to 1",
     [](PlainLayer& layer, AttentionRecipe& recipe) {
       recipe.mask = MaskStep::kAfterSoftmax;
       return masks(layer);
     }},
    {"no_mask", "not masked: every token sees every other",
     [](PlainLayer& layer, AttentionRecipe& recipe) {
       recipe.mask = MaskStep::kMissing;
       return masks(layer);
     }},
    {"mask_inverted", "mask of the opposite polarity: true means hidden on one side and visible on the other",
     [](PlainLayer& layer, AttentionRecipe& recipe) {
       recipe.mask = MaskStep::kInverted;
       return masks(layer);
     }},
    {"mask_not_asked_for", "masked causally, which this layer is not",
     [](PlainLayer& layer, AttentionRecipe&) { return !std::exchange(layer.causal, true); }},
    {"mask_upper_left",
     "the mask of the first queries used for the last ones: of fewer queries than keys, aligned upper left",
     [](PlainLayer& layer, AttentionRecipe& recipe) {
       recipe.rows_from_the_start = true;
       return masks(layer);
     }},
    {"window_one_more", "window one key too long",
     [](PlainLayer& layer, AttentionRecipe& recipe) { return change_window(layer, recipe, 1); }},
    {"window_one_less", "window one key too short",
     [](PlainLayer& layer, AttentionRecipe& recipe) { return change_window(layer, recipe, -1); }},
    {"query_transposed", "W_query transposed",
     [](PlainLayer& layer, AttentionRecipe&) { return transpose_rows(layer, layer.sizes.query_rows()); }},
    {"key_transposed", "W_key transposed",
     [](PlainLayer& layer, AttentionRecipe&) { return transpose_rows(layer, layer.sizes.key_rows()); }},
    {"value_transposed", "W_value transposed",
     [](PlainLayer& layer, AttentionRecipe&) { return transpose_rows(layer, layer.sizes.value_rows()); }},
    {"qkv_transposed", "W_query, W_key and W_value transposed: (d_in, d_out) read as (d_out, d_in)",
     [](PlainLayer& layer, AttentionRecipe&) { return transpose_all(layer); }},
    {"out_transposed", "W_out transposed",
     [](PlainLayer& layer, AttentionRecipe&) {
       if (!layer.out || layer.out.size(0) != layer.out.size(1)) return false;
       layer.out = Tensor<double, 2>(layer.out.cview().transpose(0, 1));
       return true;
     }},
    {"all_transposed", "all four matrices transposed",
     [](PlainLayer& layer, AttentionRecipe&) {
       if (!layer.out || layer.out.size(0) != layer.out.size(1)) return false;
       layer.out = Tensor<double, 2>(layer.out.cview().transpose(0, 1));
       return transpose_all(layer);
     }},
    {"qkv_blocks_read_per_head", "fused rows in three blocks Q, K, V read as q, k, v of each head",
     [](PlainLayer& layer, AttentionRecipe&) {
       return reorder_rows(layer, [sizes = layer.sizes](Index r) { return blocks_to_heads(sizes, r); });
     }},
    {"qkv_heads_read_as_blocks", "fused rows q, k, v of each head read as three blocks Q, K, V",
     [](PlainLayer& layer, AttentionRecipe&) {
       return reorder_rows(layer, [sizes = layer.sizes](Index r) { return heads_to_blocks(sizes, r); });
     }},
    {"queries_and_keys_swapped", "queries and keys swapped",
     [](PlainLayer& layer, AttentionRecipe&) {
       return shift_parts(layer, {1, 0, 2});
     }},
    {"keys_and_values_swapped", "keys and values swapped",
     [](PlainLayer& layer, AttentionRecipe&) {
       return shift_parts(layer, {0, 2, 1});
     }},
    {"rotary_style", "rotary pairs of the other style: half_split against interleaved",
     [](PlainLayer& layer, AttentionRecipe&) {
       if (!layer.rotary) return false;
       const bool half = layer.rotary->style == RotaryStyle::kHalfSplit;
       layer.rotary->style = half ? RotaryStyle::kInterleaved : RotaryStyle::kHalfSplit;
       return true;
     }},
    {"no_rotary", "queries and keys not turned by their positions",
     [](PlainLayer& layer, AttentionRecipe&) { return std::exchange(layer.rotary, std::nullopt).has_value(); }},
    {"kv_head_order", "query head h reads kv head h % kv_heads in place of h // (heads / kv_heads)",
     [](PlainLayer& layer, AttentionRecipe& recipe) {
       recipe.kv_heads_interleaved = true;
       return layer.sizes.kv_heads < layer.sizes.heads;
     }},
};

}  // namespace

std::span<const KnownMistake> known_mistakes() { return kMistakes; }

}  // namespace headwise
