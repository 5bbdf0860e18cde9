// SPDX-License-Identifier: Apache-2.0
// The steps of a layer, rightly done, with one token's numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/lens/explain_parts.h"

namespace headwise {
namespace {

using Row = std::vector<std::string>;

Row column_names(const std::string& first, const char* letter, Index count) {
  Row names{first};
  for (Index i = 0; i < std::min(count, kMostShown); ++i) names.push_back(column_name(letter, i));
  return names;
}

Row numbers(const std::string& name, TensorView<const double, 1> values) {
  Row row{name};
  for (Index i = 0; i < std::min(values.size(0), kMostShown); ++i) row.push_back(number_text(values(i)));
  return row;
}

Row token_names(const std::string& first, Index seq) {
  Row names{first};
  for (Index j = 0; j < std::min(seq, kMostShown); ++j) names.push_back(fmt::format("token {}", j));
  return names;
}

// A row for each head: this token's line of (heads, seq, seq).
ExplainTable by_head(const ExplainSubject& subject, const std::string& title, const Tensor<double, 3>& numbers_of,
                     bool hide) {
  const Index seq = subject.x.size(0);
  ExplainTable table{title, token_names("head", seq), {}};
  if (hide) table.columns.push_back("sum");
  for (Index h = 0; h < std::min(subject.layer.sizes.heads, kMostShown); ++h) {
    Row row = numbers(fmt::format("head {}", h), numbers_of.cview().select(0, h).select(0, subject.token));
    double sum = 0;
    for (Index j = 0; j < seq; ++j) {
      sum += numbers_of(h, subject.token, j);
      const bool shown = j < kMostShown && hide && !plain_sees(subject.layer, subject.token, j);
      if (shown) row[static_cast<std::size_t>(j + 1)] = "-";
    }
    if (hide) row.push_back(number_text(sum));
    table.rows.push_back(std::move(row));
  }
  return table;
}

ExplainSection project_step(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  const Index seq = subject.x.size(0), width = sizes.query_width(), d_in = subject.layer.d_in;
  ExplainSection step{"project", "Project: x times three weight matrices", {}, {}, {}};
  step.paragraphs.push_back(
      fmt::format("x is (batch=1, seq={}, d_in={}). W_query is (d_out={}, d_in={}), and so are W_key and W_value"
                  "{}.",
                  seq, d_in, width, d_in,
                  sizes.kv_heads == sizes.heads ? ""
                                                : fmt::format(" with {} rows, since {} heads share {} key heads",
                                                              sizes.kv_width(), sizes.heads, sizes.kv_heads)));
  const bool differ = d_in != width;
  step.paragraphs.push_back(
      fmt::format("Queries are of size (batch, seq, d_out={}){}.", width,
                  differ ? fmt::format(", not (batch, seq, d_in={}): a projection replaces the last axis. The answer "
                                       "that says \"each of size (batch_size, seq_len, d_in)\" is right only where "
                                       "d_in == d_out",
                                       d_in)
                         : "; here d_in is the same number, but the axis is d_out"));
  step.tables.push_back({fmt::format("Token {} goes in", subject.token), column_names("", "x", d_in), {}});
  step.tables.back().rows.push_back(numbers("x", subject.x.select(0, subject.token)));
  step.tables.push_back({"and comes out as", column_names("", "column ", width), {}});
  step.tables.back().rows.push_back(numbers("q", subject.run.queries.cview().select(0, subject.token)));
  if (sizes.kv_heads == sizes.heads) {
    step.tables.back().rows.push_back(numbers("k", subject.run.keys.cview().select(0, subject.token)));
    step.tables.back().rows.push_back(numbers("v", subject.run.values.cview().select(0, subject.token)));
  }
  return step;
}

ExplainSection split_step(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  const Index seq = subject.x.size(0), width = sizes.query_width(), hd = sizes.head_dim;
  ExplainSection step{"split", "Reshape: cut the columns into heads", {}, {}, {}};
  step.paragraphs.push_back(fmt::format(
      "queries.view(batch, seq, num_heads={}, head_dim={}) gives the same numbers another pair of indices: "
      "column c of a token becomes head c // {}, place c % {}. It starts at the same address, and the strides "
      "({}, {}, 1) become ({}, {}, {}, 1): same data, nothing is copied, nothing is computed. (In the table above "
      "a token's step is longer: headwise makes queries, keys and values in one product, side by side.)",
      sizes.heads, hd, hd, hd, seq * width, width, seq * width, width, hd));
  ExplainTable table{fmt::format("Token {}, before and after", subject.token), {"", "columns", "query"}, {}};
  for (Index h = 0; h < std::min(sizes.heads, kMostShown); ++h) {
    std::string names, values;
    for (Index d = 0; d < std::min(hd, kMostShown); ++d) {
      names += (d == 0 ? "" : " ") + column_name("q", h * hd + d);
      values += (d == 0 ? "" : " ") + number_text(subject.run.queries(subject.token, h * hd + d));
    }
    table.rows.push_back({fmt::format("head {}", h), "[" + names + "]", "[" + values + "]"});
  }
  step.tables.push_back(std::move(table));
  return step;
}

ExplainSection transpose_step(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  const Index seq = subject.x.size(0), width = sizes.query_width(), hd = sizes.head_dim;
  return {
      "transpose",
      "Transpose: heads before tokens",
      {fmt::format("transpose(1, 2) gives (batch=1, heads={}, seq={}, head_dim={}) with the strides ({}, {}, {}, 1): "
                   "two axes swap their names and strides, and it is still the same data. A matrix product works on "
                   "the last two axes; with the heads in front it multiplies (seq, head_dim) by (head_dim, seq) once "
                   "for each head.",
                   sizes.heads, seq, hd, seq * width, hd, width)},
      {},
      {}};
}

ExplainSection score_step(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  const Index seq = subject.x.size(0), hd = sizes.head_dim, t = subject.token;
  ExplainSection step{"scores", "Scores: one dot product for each head and pair of tokens", {}, {}, {}};
  step.paragraphs.push_back(fmt::format(
      "scores = queries keys^T / sqrt(head_dim={}): (batch=1, heads={}, seq={}, seq={}). This is where the head axis "
      "changes the result: each head compares only its own columns.",
      hd, sizes.heads, seq, seq));
  std::string sum;
  for (Index d = 0; d < std::min(hd, kMostShown); ++d) {
    const double q = subject.run.queries(t, d), k = subject.run.keys(0, d);
    sum += fmt::format("{}{} * {}", d == 0 ? "" : " + ", number_text(q), number_text(k));
  }
  if (hd > kMostShown) sum += " + ...";
  step.paragraphs.push_back(fmt::format("Head 0, token {} on token 0: ({}) / sqrt({}) = {}", t, sum, hd,
                                        number_text(subject.run.scores(0, t, 0))));
  step.tables.push_back(by_head(subject, fmt::format("Scores of token {}", t), subject.run.scores, false));
  return step;
}

ExplainSection mask_step(const ExplainSubject& subject) {
  Index seen = 0;
  for (Index j = 0; j < subject.x.size(0); ++j) seen += plain_sees(subject.layer, subject.token, j) ? 1 : 0;
  ExplainSection step{"mask", "Mask: which tokens may be seen", {}, {}, {}};
  if (!subject.layer.causal && !subject.layer.window_left) {
    step.paragraphs.push_back("This layer masks nothing: every token sees every other.");
    return step;
  }
  step.paragraphs.push_back(fmt::format(
      "{}Token {} sees {} of {} tokens. What it must not see is set to -inf before the softmax, which makes the weight "
      "exactly 0 and lets the others sum to 1.",
      subject.layer.causal ? "The layer is causal: no token sees a later one. " : "", subject.token, seen,
      subject.x.size(0)));
  return step;
}

ExplainSection softmax_step(const ExplainSubject& subject) {
  const Index heads = subject.layer.sizes.heads, seq = subject.x.size(0);
  ExplainSection step{"softmax", "Softmax: over the keys, for each head by itself", {}, {}, {}};
  step.paragraphs.push_back(
      fmt::format("Token {} gets {} of weights, one for each head, each summing to 1. The heads do not compete: one "
                  "can look at one "
                  "token and another at a different one. (batch=1, heads={}, seq={}, seq={}).",
                  subject.token, heads == 1 ? "1 row" : fmt::format("{} rows", heads), heads, seq, seq));
  step.tables.push_back(by_head(subject, fmt::format("Weights of token {}", subject.token), subject.run.weights, true));
  return step;
}

ExplainSection context_step(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  ExplainSection step{"context", "Context: each head mixes its own columns of the values", {}, {}, {}};
  step.paragraphs.push_back(
      fmt::format("context = weights values: (batch=1, heads={}, seq={}, head_dim={}). Head h mixes columns h * {} to "
                  "h * {} + {} of the values with its own weights.",
                  sizes.heads, subject.x.size(0), sizes.head_dim, sizes.head_dim, sizes.head_dim, sizes.head_dim - 1));
  ExplainTable table{
      fmt::format("Context of token {}", subject.token), column_names("head", "place ", sizes.head_dim), {}};
  for (Index h = 0; h < std::min(sizes.heads, kMostShown); ++h) {
    const auto row = subject.run.merged.cview().select(0, subject.token);
    table.rows.push_back(
        numbers(fmt::format("head {}", h), row.slice(0, h * sizes.head_dim, (h + 1) * sizes.head_dim)));
  }
  step.tables.push_back(std::move(table));
  return step;
}

ExplainSection merge_step(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  ExplainSection step{"merge", "Merge: the heads side by side again", {}, {}, {}};
  step.paragraphs.push_back(fmt::format(
      "Transpose back and join the last two axes: (batch=1, seq={}, heads * head_dim={}). headwise writes each head's "
      "context where the merged tensor has it, so this is a view too; in torch it is "
      "context.transpose(1, 2).contiguous().view(batch, seq, d_out), whose contiguous() copies once.",
      subject.x.size(0), sizes.query_width()));
  step.tables.push_back({fmt::format("Token {}", subject.token), column_names("", "o", sizes.query_width()), {}});
  step.tables.back().rows.push_back(numbers("merged", subject.run.merged.cview().select(0, subject.token)));
  return step;
}

ExplainSection output_step(const ExplainSubject& subject) {
  ExplainSection step{"output", "Output projection: the first step that mixes the heads", {}, {}, {}};
  if (!subject.layer.out) {
    step.paragraphs.push_back("This layer has none: its output is the merged context, each head in its own columns.");
    return step;
  }
  step.paragraphs.push_back(fmt::format(
      "out = merged W_out^T{}: (batch=1, seq={}, d_out={}). Until here no number of one head has met a number of "
      "another.",
      subject.layer.out_bias ? " + b_out" : "", subject.x.size(0), subject.layer.d_out));
  step.tables.push_back({fmt::format("Token {}", subject.token), column_names("", "y", subject.layer.d_out), {}});
  step.tables.back().rows.push_back(numbers("out", subject.run.out.cview().select(0, subject.token)));
  return step;
}

}  // namespace

std::string number_text(double value) { return fmt::format("{:.4f}", value == 0 ? 0.0 : value); }

std::string column_name(const char* letter, Index column) { return fmt::format("{}{}", letter, column + 1); }

std::vector<ExplainSection> explain_steps(const ExplainSubject& subject) {
  return {project_step(subject), split_step(subject), transpose_step(subject),
          score_step(subject),   mask_step(subject),  softmax_step(subject),
          context_step(subject), merge_step(subject), output_step(subject)};
}

}  // namespace headwise
