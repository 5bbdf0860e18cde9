// SPDX-License-Identifier: Apache-2.0
// A layer's tensors under one rule: every one that must be there, with the shape it must have, and no other.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "headwise/checkpoints/attention_places.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

class ShapeReader {
 public:
  ShapeReader(const SafetensorsSet& set, const AttentionPlace& place, const AttentionRule& rule)
      : set_(set), prefix_(place.prefix), rule_(rule) {}

  AttentionShapes read() {
    if (rule_.layout == WeightLayout::kPerHead) shapes_.named_heads = count_heads();
    read_inputs();
    read_output();
    read_norms();
    refuse_strangers();
    return shapes_;
  }

 private:
  bool in_out() const {
    return rule_.layout == WeightLayout::kSeparateInOut || rule_.layout == WeightLayout::kQkvColumns;
  }

  // Rows and columns of a matrix, as (out, in) whichever way it lies.
  std::pair<Index, Index> matrix(std::string_view name, bool in_out) {
    const std::vector<Index>& shape = take(name);
    if (shape.size() != 2) fail(name, in_out ? "must be (d_in, d_out)" : "must be (d_out, d_in)", shape);
    // Without elements a file could claim any number of the others.
    if (shape[0] == 0 || shape[1] == 0) fail(name, "must not be empty", shape);
    return in_out ? std::pair(shape[1], shape[0]) : std::pair(shape[0], shape[1]);
  }

  void check(std::string_view name, const std::vector<Index>& expected) {
    const std::vector<Index>& shape = take(name);
    if (shape != expected)
      fail(name, "must be " + format_shape(expected) + " in a layer of family " + std::string(rule_.family), shape);
  }

  void check_matrix(std::string_view name, Index rows, Index columns, bool in_out) {
    check(name, in_out ? std::vector{columns, rows} : std::vector{rows, columns});
  }

  const std::vector<Index>& take(std::string_view name) {
    const SafetensorsSet::Place* found = set_.find(full(name));
    if (found == nullptr) throw FileError(set_.path(), "there is no tensor " + quote_name(full(name)));
    taken_.insert(std::string(name));
    Index count = 1;
    for (const Index extent : found->entry->shape) count *= extent;
    shapes_.parameters += count;
    return found->entry->shape;
  }

  void read_inputs() {
    const AttentionNames& names = rule_.names;
    const bool one_matrix = names.key.empty();
    const Index heads = std::max<Index>(shapes_.named_heads, 1);
    const auto [rows, columns] = matrix(numbered(names.query, 0), in_out());
    shapes_.d_in = columns;
    if (one_matrix && rows % 3 != 0) {
      fail(names.query,
           fmt::format("must hold queries, keys and values of one width, so {} divisible by 3",
                       in_out() ? "columns" : "rows"),
           take_again(names.query));
    }
    shapes_.query_rows = one_matrix ? rows / 3 : rows * heads;
    shapes_.key_rows = shapes_.query_rows;
    if (!one_matrix) read_keys_and_values(rows, heads);
    read_biases(heads);
  }

  void read_keys_and_values(Index query_rows, Index heads) {
    const AttentionNames& names = rule_.names;
    const auto [rows, columns] = matrix(numbered(names.key, 0), in_out());
    if (columns != shapes_.d_in) check_matrix(numbered(names.key, 0), rows, shapes_.d_in, in_out());
    if (rule_.layout == WeightLayout::kPerHead) check_matrix_again(names.key, query_rows);
    shapes_.key_rows = rows * heads;
    check_matrix(numbered(names.value, 0), rows, shapes_.d_in, in_out());
    for (int head = 1; head < heads; ++head) {
      for (const std::string_view name : {names.query, names.key, names.value}) {
        check_matrix(numbered(name, head), query_rows, shapes_.d_in, in_out());
      }
    }
  }

  void check_matrix_again(std::string_view name, Index rows) {
    const std::vector<Index>& shape = take_again(numbered(name, 0));
    const std::vector<Index> expected{rows, shapes_.d_in};
    if (shape != expected)
      fail(numbered(name, 0), "must be " + format_shape(expected) + " as that of the queries", shape);
  }

  const std::vector<Index>& take_again(std::string_view name) const { return set_.find(full(name))->entry->shape; }

  void read_biases(Index heads) {
    const AttentionNames& names = rule_.names;
    const auto has = [&](std::string_view name) { return !name.empty() && set_.contains(full(numbered(name, 0))); };
    if (names.key_bias.empty()) {
      shapes_.qkv_bias = has(names.query_bias);
      if (shapes_.qkv_bias) check(names.query_bias, {shapes_.query_rows + 2 * shapes_.key_rows});
      return;
    }
    shapes_.qkv_bias = has(names.query_bias) || has(names.key_bias) || has(names.value_bias);
    if (!shapes_.qkv_bias) return;
    for (int head = 0; head < heads; ++head) {
      check(numbered(names.query_bias, head), {shapes_.query_rows / heads});
      check(numbered(names.key_bias, head), {shapes_.key_rows / heads});
      check(numbered(names.value_bias, head), {shapes_.key_rows / heads});
    }
  }

  void read_output() {
    const AttentionNames& names = rule_.names;
    shapes_.d_out = shapes_.query_rows;
    if (names.out.empty() || rule_.out_proj == Presence::kNever) return;
    if (rule_.out_proj == Presence::kMaybe && !set_.contains(full(names.out))) return;
    const bool turned = rule_.layout == WeightLayout::kQkvColumns;
    const auto [rows, columns] = matrix(names.out, turned);
    if (columns != shapes_.query_rows) check_matrix(names.out, rows, shapes_.query_rows, turned);
    shapes_.out_proj = true;
    shapes_.d_out = rows;
    shapes_.out_bias = set_.contains(full(names.out_bias));
    if (shapes_.out_bias) check(names.out_bias, {shapes_.d_out});
  }

  // One weight for each number of a head, or of all heads.
  void read_norms() {
    const AttentionNames& names = rule_.names;
    if (rule_.query_key_norm == Presence::kNever) return;
    if (rule_.query_key_norm == Presence::kMaybe && !set_.contains(full(names.query_norm))) return;
    shapes_.query_key_norm = true;
    if (rule_.whole_norm) {
      check(names.query_norm, {shapes_.query_rows});
      check(names.key_norm, {shapes_.key_rows});
      return;
    }
    const std::vector<Index>& shape = take(names.query_norm);
    if (shape.size() != 1) fail(names.query_norm, "must be (head_dim,)", shape);
    if (rule_.query_key_norm == Presence::kAlways) return check(names.key_norm, shape);
    // Whether it is over each head or over all, the metadata says.
    const bool whole = shape.front() == shapes_.query_rows;
    check(names.key_norm, whole ? std::vector{shapes_.key_rows} : shape);
  }

  Index count_heads() const {
    int heads = 1;
    while (set_.contains(full(numbered(rule_.names.query, heads)))) ++heads;
    return heads;
  }

  // A part that the rule does not know would be a part of the numbers too.
  void refuse_strangers() const {
    for (const SafetensorsSet::Place& place : set_.places()) {
      std::string_view name = place.entry->name;
      if (!name.starts_with(prefix_)) continue;
      name.remove_prefix(prefix_.size());
      if (taken_.contains(name) || is_stored_mask(name)) continue;
      if (std::find(rule_.ignored.begin(), rule_.ignored.end(), name) != rule_.ignored.end()) continue;
      throw FileError(set_.path(),
                      fmt::format("tensor {} is a part that headwise does not serve in a layer of family {}",
                                  quote_name(place.entry->name), rule_.family));
    }
  }

  static bool is_stored_mask(std::string_view name) {
    return name == "mask" || name.ends_with(".mask") || name.ends_with("masked_bias");
  }

  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  [[noreturn]] void fail(std::string_view name, const std::string& expected, const std::vector<Index>& shape) const {
    throw FileError(set_.path(),
                    fmt::format("tensor {} {}, got {}", quote_name(full(name)), expected, format_shape(shape)));
  }

  const SafetensorsSet& set_;
  const std::string& prefix_;
  const AttentionRule& rule_;
  AttentionShapes shapes_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace

AttentionShapes read_attention_shapes(const SafetensorsSet& set, const AttentionPlace& place,
                                      const AttentionRule& rule) {
  return ShapeReader(set, place, rule).read();
}

}  // namespace headwise
