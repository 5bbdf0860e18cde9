// SPDX-License-Identifier: Apache-2.0
// The steps of a layer left out or done wrongly, with the numbers that come of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/lens/explain_parts.h"

namespace headwise {
namespace {

using Row = std::vector<std::string>;

double largest_difference(const Tensor<double, 2>& a, const Tensor<double, 2>& b) {
  double most = 0;
  for (Index i = 0; i < a.elements(); ++i) most = std::max(most, std::abs(a.data()[i] - b.data()[i]));
  return most;
}

Row numbers(const std::string& name, TensorView<const double, 1> values) {
  Row row{name};
  for (Index i = 0; i < std::min(values.size(0), kMostShown); ++i) row.push_back(number_text(values(i)));
  return row;
}

Row names(const std::string& first, const char* letter, Index count, Index begin) {
  Row row{first};
  for (Index i = 0; i < std::min(count, kMostShown); ++i) row.push_back(fmt::format("{}{}", letter, i + begin));
  return row;
}

// The token's output rightly and wrongly.
ExplainTable outputs(const ExplainSubject& subject, const PlainRun& wrong) {
  ExplainTable table{fmt::format("Output of token {}", subject.token), names("", "y", subject.layer.d_out, 1), {}};
  table.rows.push_back(numbers("right", subject.run.out.cview().select(0, subject.token)));
  table.rows.push_back(numbers("so", wrong.out.cview().select(0, subject.token)));
  return table;
}

std::string difference_text(const ExplainSubject& subject, const PlainRun& wrong) {
  return fmt::format("Largest difference of the whole output: {:.4g}.", largest_difference(subject.run.out, wrong.out));
}

PlainLayer as_one_head(const PlainLayer& layer) {
  PlainLayer one = layer;
  one.sizes = {1, 1, layer.sizes.query_width()};
  return one;
}

// Unscaled dot products of the token: a row for each head, their sum, and the full width at once.
ExplainTable score_sum(const ExplainSubject& subject, double& largest_gap) {
  const Index seq = subject.x.size(0), heads = subject.layer.sizes.heads, t = subject.token;
  const double scale = std::sqrt(static_cast<double>(subject.layer.sizes.head_dim));
  ExplainTable table{fmt::format("q k of token {}, not yet scaled", t), names("", "token ", seq, 0), {}};
  Row sum_row{"sum of the heads"}, full_row{"full width at once"};
  for (Index h = 0; h < heads; ++h) {
    Row row{fmt::format("head {}", h)};
    for (Index j = 0; j < std::min(seq, kMostShown); ++j)
      row.push_back(number_text(subject.run.scores(h, t, j) * scale));
    if (h < kMostShown) table.rows.push_back(std::move(row));
  }
  for (Index j = 0; j < seq; ++j) {
    double sum = 0, full = 0;
    for (Index h = 0; h < heads; ++h) sum += subject.run.scores(h, t, j) * scale;
    for (Index c = 0; c < subject.layer.sizes.query_width(); ++c)
      full += subject.run.queries(t, c) * subject.run.keys(j, c);
    largest_gap = std::max(largest_gap, std::abs(sum - full));
    if (j >= kMostShown) continue;
    sum_row.push_back(number_text(sum));
    full_row.push_back(number_text(full));
  }
  table.rows.push_back(std::move(sum_row));
  table.rows.push_back(std::move(full_row));
  return table;
}

ExplainSection without_heads(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  const Index seq = subject.x.size(0), t = subject.token;
  ExplainSection section{"no_head_axis", "What if the head axis is skipped?", {}, {}, {}};
  if (sizes.kv_heads != sizes.heads || subject.layer.rotary) {
    section.paragraphs.push_back(
        "Not shown for this layer: its heads share keys or are turned by position, so they are not columns of one "
        "head.");
    return section;
  }
  const PlainRun one = run_plain(as_one_head(subject.layer), subject.x, seq);
  section.paragraphs.push_back(
      fmt::format("With queries left at (batch, seq, d_out={}) the code still runs, and is single-head attention over "
                  "all {} columns. "
                  "A dot product over all columns is the sum of the heads' dot products:",
                  sizes.query_width(), sizes.query_width()));
  double gap = 0;
  section.tables.push_back(score_sum(subject, gap));
  section.tables.push_back({fmt::format("Weights of token {}: {} softmaxes, or one of the sum", t, sizes.heads),
                            names("", "token ", seq, 0),
                            {}});
  std::vector<Row>& rows = section.tables.back().rows;
  for (Index h = 0; h < std::min(sizes.heads, kMostShown); ++h) {
    rows.push_back(numbers(fmt::format("head {}", h), subject.run.weights.cview().select(0, h).select(0, t)));
  }
  rows.push_back(numbers("one head", one.weights.cview().select(0, 0).select(0, t)));
  section.tables.push_back(outputs(subject, one));
  section.conclusions = {
      fmt::format("Sum of the heads against the full width: they differ by at most {:.1g}, which is rounding.", gap),
      fmt::format(
          "So nothing is missing from the sum, but one softmax of it gives every token one row of weights where {} "
          "heads give {}. All columns of the values are then mixed with that one row; heads may each look "
          "elsewhere. Both dot product and softmax are done for each head: the head axis is what makes the "
          "products separate, and the separate softmaxes follow from it.",
          sizes.heads, sizes.heads),
      fmt::format("The weight matrices hold the same {} numbers either way: heads cost no parameters.",
                  subject.layer.stacked.elements() + subject.layer.out.elements()),
      difference_text(subject, one)};
  return section;
}

ExplainSection straight_view(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  const Index seq = subject.x.size(0), width = sizes.query_width();
  AttentionRecipe recipe;
  recipe.straight_split = recipe.straight_merge = true;
  const PlainRun wrong = run_plain(subject.layer, subject.x, seq, recipe);
  ExplainSection section{
      "view_without_transpose", "What if one views straight to (batch, heads, seq, head_dim)?", {}, {}, {}};
  section.paragraphs.push_back(
      "The shape is the wanted one and nothing complains, but a view keeps the numbers in their order in memory, and "
      "there "
      "the tokens come one after the other. So a head does not get its columns of every token but all columns of a "
      "few:");
  ExplainTable table{
      "What stands where head h should have its place of each token", names("", "as token ", seq, 0), {}};
  for (Index h = 0; h < std::min(sizes.heads, kMostShown); ++h) {
    Row row{fmt::format("head {}", h)};
    for (Index t = 0; t < std::min(seq, kMostShown); ++t) {
      const Index flat = (h * seq + t) * sizes.head_dim, last = flat + sizes.head_dim - 1;
      const std::string end = flat / width == last / width
                                  ? fmt::format("..{}", column_name("q", last % width))
                                  : fmt::format(" to token {} {}", last / width, column_name("q", last % width));
      row.push_back(
          fmt::format("token {} {}{}", flat / width, column_name("q", flat % width), sizes.head_dim == 1 ? "" : end));
    }
    table.rows.push_back(std::move(row));
  }
  section.tables.push_back(std::move(table));
  section.tables.push_back(outputs(subject, wrong));
  section.conclusions = {
      difference_text(subject, wrong),
      "A causal mask does not help: what stands at one place comes from other tokens, later ones too."};
  return section;
}

ExplainSection wrong_axis(const ExplainSubject& subject) {
  const Index seq = subject.x.size(0);
  AttentionRecipe recipe;
  recipe.softmax_over_queries = true;
  const PlainRun wrong = run_plain(subject.layer, subject.x, seq, recipe);
  ExplainSection section{"softmax_wrong_axis", "What if the softmax runs over the queries?", {}, {}, {}};
  section.paragraphs.push_back(
      "softmax(dim=-2) in place of dim=-1: then the weights that one key receives sum to 1, not those that one query "
      "gives.");
  section.tables.push_back({"Sum of each token's weights in head 0", names("", "token ", seq, 0), {}});
  for (const auto& [name, run] : {std::pair("right", &subject.run), std::pair("so", &wrong)}) {
    Row row{name};
    for (Index i = 0; i < std::min(seq, kMostShown); ++i) {
      double sum = 0;
      for (Index j = 0; j < seq; ++j) sum += run->weights(0, i, j);
      row.push_back(number_text(sum));
    }
    section.tables.back().rows.push_back(std::move(row));
  }
  section.tables.push_back(outputs(subject, wrong));
  section.conclusions = {difference_text(subject, wrong)};
  return section;
}

double mean_entropy(const PlainRun& run) {
  double total = 0;
  for (Index i = 0; i < run.weights.elements(); ++i) {
    const double weight = run.weights.data()[i];
    if (weight > 0) total -= weight * std::log(weight);
  }
  return total / static_cast<double>(run.weights.size(0) * run.weights.size(1));
}

ExplainSection wrong_scale(const ExplainSubject& subject) {
  const AttentionSizes& sizes = subject.layer.sizes;
  AttentionRecipe recipe;
  recipe.scale = 1 / std::sqrt(static_cast<double>(sizes.query_width()));
  const PlainRun wrong = run_plain(subject.layer, subject.x, subject.x.size(0), recipe);
  ExplainSection section{"scale_by_d_out", "What if scores are divided by sqrt(d_out)?", {}, {}, {}};
  section.paragraphs.push_back(
      fmt::format("A dot product of head_dim={} columns grows as sqrt({}), so that is what to divide by. "
                  "sqrt(d_out={}) is sqrt(heads) "
                  "times as much: all scores shrink by {:.4g}, and the weights move towards equal ones.",
                  sizes.head_dim, sizes.head_dim, sizes.query_width(), std::sqrt(static_cast<double>(sizes.heads))));
  section.tables.push_back(
      {fmt::format("Weights of token {} in head 0", subject.token), names("", "token ", subject.x.size(0), 0), {}});
  section.tables.back().rows.push_back(
      numbers("right", subject.run.weights.cview().select(0, 0).select(0, subject.token)));
  section.tables.back().rows.push_back(numbers("so", wrong.weights.cview().select(0, 0).select(0, subject.token)));
  section.tables.push_back(outputs(subject, wrong));
  section.conclusions = {fmt::format("Mean entropy of the weights: {} right, {} so.",
                                     number_text(mean_entropy(subject.run)), number_text(mean_entropy(wrong))),
                         difference_text(subject, wrong)};
  return section;
}

}  // namespace

std::vector<ExplainSection> explain_what_ifs(const ExplainSubject& subject) {
  return {without_heads(subject), straight_view(subject), wrong_axis(subject), wrong_scale(subject)};
}

}  // namespace headwise
