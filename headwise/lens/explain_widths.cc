// SPDX-License-Identifier: Apache-2.0
// What d_out counts: one head, or all of them; and the wrapper beside the weight-split layer.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstddef>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/layers/multi_head_attention_wrapper.h"
#include "headwise/lens/explain_parts.h"

namespace headwise {
namespace {

template <class T>
std::vector<std::string> width_row(const std::string& name, Index d_out, const AttentionLayer<T>& layer) {
  const AttentionSizes& sizes = layer.sizes();
  const Index all = layer.parameter_count(), width = layer.config().d_out;
  const Index projection =
      layer.config().out_proj ? width * (sizes.query_width() + (layer.config().out_bias ? 1 : 0)) : 0;
  return {name,
          fmt::format("{}", d_out),
          fmt::format("{}", sizes.head_dim),
          fmt::format("(batch, seq, {})", width),
          fmt::format("{}", all - projection),
          projection == 0 ? "-" : fmt::format("{}", projection),
          fmt::format("{}", all)};
}

// Numbers in which H objects called one after the other, and the weight-split layer, differ from the stacked wrapper.
template <class T>
struct SameLayer {
  Index loop = 0, split = 0, numbers = 0;
};

template <class T>
SameLayer<T> compare_outputs(const MultiHeadAttentionWrapper<T>& wrapper, TensorView<const T, 3> x) {
  const Tensor<T, 3> stacked = wrapper.forward(x), split = wrapper.fuse().forward(x);
  const Index hd = wrapper.sizes().head_dim;
  using Bytes = std::array<std::byte, sizeof(T)>;
  const auto differs = [](T a, T b) { return std::bit_cast<Bytes>(a) != std::bit_cast<Bytes>(b); };
  SameLayer<T> same;
  same.numbers = stacked.elements();
  for (Index head = 0; head < wrapper.sizes().heads; ++head) {
    const Tensor<T, 3> alone = wrapper.head(head).forward(x);
    for (Index i = 0; i < x.size(1); ++i) {
      for (Index d = 0; d < hd; ++d) {
        const T value = stacked(0, i, head * hd + d);
        same.loop += differs(value, alone(0, i, d)) ? 1 : 0;
        same.split += differs(value, split(0, i, head * hd + d)) ? 1 : 0;
      }
    }
  }
  return same;
}

}  // namespace

template <class T>
ExplainSection explain_widths(const AttentionLayer<T>& layer, TensorView<const T, 2> x) {
  const AttentionSizes& sizes = layer.sizes();
  const Index d_in = layer.config().d_in, heads = sizes.heads, hd = sizes.head_dim, width = sizes.query_width();
  WrapperOptions options;
  options.qkv_bias = layer.config().query_bias;
  options.seed = 123;
  WrapperOptions projected = options;
  projected.out_proj = true;
  using Wrapper = MultiHeadAttentionWrapper<T>;
  const Wrapper per_head = Wrapper::with_head_width(d_in, hd, heads, options);
  ExplainSection section{"d_out", "What does d_out count?", {}, {}, {}};
  section.paragraphs = {
      "MultiHeadAttentionWrapper makes num_heads objects and joins their outputs. What its argument d_out is, is a "
      "choice of "
      "whoever wrote it: each head's width (the book: d_out is what the weight-split layer calls head_dim, and the "
      "output is "
      "num_heads times as wide), or the whole width (the proposal: every head gets d_out // num_heads, and an output "
      "projection follows)."};
  ExplainTable table{fmt::format("{} heads on d_in={}", heads, d_in),
                     {"", "d_out=", "head_dim", "output", "queries, keys, values", "out_proj", "parameters"},
                     {}};
  table.rows.push_back(width_row("wrapper, d_out of one head", hd, per_head));
  table.rows.push_back(width_row("the same, given the whole width by mistake", width,
                                 Wrapper::with_head_width(d_in, width, heads, options)));
  table.rows.push_back(
      width_row("wrapper, d_out of all heads", width, Wrapper::with_total_width(d_in, width, heads, options)));
  table.rows.push_back(width_row("the proposal: the same with out_proj", width,
                                 Wrapper::with_total_width(d_in, width, heads, projected)));
  MultiHeadAttentionOptions split{.num_heads = heads, .qkv_bias = options.qkv_bias, .seed = 123};
  table.rows.push_back(
      width_row("weight-split, one matrix for all heads", width, MultiHeadAttention<T>(d_in, width, split)));
  section.tables.push_back(std::move(table));
  const SameLayer<T> same = compare_outputs<T>(per_head, TensorView<const T, 3>(x.data(), {1, x.size(0), d_in}));
  section.conclusions = {
      fmt::format(
          "Wrapper and weight-split are one layer: put the heads' W_query ({}, {}) on top of each other and it is "
          "the weight-split W_query ({}, {}); row r belongs to head r // {}.",
          hd, d_in, width, d_in, hd),
      fmt::format(
          "Tried on this input with the wrapper's weights: of {} numbers, {} differ between {} objects called one "
          "after the other and the stacked wrapper, {} between that and the weight-split layer.",
          same.numbers, same.loop, heads, same.split),
      "What differs is time: torch.cat([head(x) for head in self.heads], dim=-1) calls the heads one after the other, "
      "and cat "
      "only joins finished results; nothing runs them together, so the calls' overhead grows with the number of heads. "
      "'headwise compare' measures it."};
  return section;
}

template ExplainSection explain_widths(const AttentionLayer<float>&, TensorView<const float, 2>);
template ExplainSection explain_widths(const AttentionLayer<double>&, TensorView<const double, 2>);

}  // namespace headwise
