// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "cli/attend_report.h"
#include "cli/head_names.h"
#include "cli/shaded_table.h"
#include "cli/text_table.h"
#include "headwise/io/utf8.h"
#include "headwise/tensor/shape_check.h"

namespace headwise::cli {
namespace {

std::string sentence_lines(const AttentionTrace& trace, const Terminal& terminal) {
  std::string text;
  for (std::size_t i = 0; i < trace.sentences.size(); ++i) {
    std::string words;
    for (const std::string& token : trace.sentences[i].tokens) words += (words.empty() ? "" : " ") + printable(token);
    const std::string start = fmt::format("Sentence {} ({}): ", i + 1, counted(trace.sentences[i].seq(), "token"));
    text += start + cut_to_width(words, std::max(20, terminal.width - display_width(start))) + "\n";
  }
  return text;
}

std::string sizes_of(const ShapeStep& step) {
  std::string text;
  for (std::size_t i = 0; i < step.axes.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ", ", step.axes[i], step.shape[i]);
  }
  return text;
}

std::string origin_of(const ShapeStep& step) {
  switch (step.memory) {
    case StepMemory::kNew:
      return step.how;
    case StepMemory::kView:
      return step.how + ": a view, no copy";
    case StepMemory::kNeverStored:
      return step.how + ": never stored";
  }
  return "";
}

std::string path_table(const AttendReport& report) {
  std::vector<std::vector<std::string>> rows{{"step", "shape", "strides", ""}};
  for (const ShapeStep& step : report.path) {
    rows.push_back(
        {step.name, sizes_of(step), step.strides.empty() ? "-" : format_shape(step.strides), origin_of(step)});
  }
  const Align columns[] = {Align::kLeft, Align::kLeft, Align::kLeft, Align::kLeft};
  return fmt::format("Shapes along layer {}:\n", report.path_layer) + text_table(columns, rows);
}

// A column of numbers, the best of which is marked.
struct NumberColumn {
  const char* title;
  bool lowest_is_best;
  double (*value)(const HeadSummary&);
};

constexpr NumberColumn kColumns[] = {
    {"entropy", true, [](const HeadSummary& head) { return head.entropy; }},
    {"self", false, [](const HeadSummary& head) { return head.self; }},
    {"previous", false, [](const HeadSummary& head) { return head.previous; }},
    {"next", false, [](const HeadSummary& head) { return head.next; }},
    {"first", false, [](const HeadSummary& head) { return head.first; }},
    {"separator", false, [](const HeadSummary& head) { return head.separator.value_or(std::nan("")); }},
};

// The row of the best number; NaN is never best.
std::size_t best_row(const std::vector<HeadSummary>& heads, const NumberColumn& column) {
  std::size_t best = heads.size();
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const double value = column.value(heads[i]);
    if (std::isnan(value)) continue;
    if (best == heads.size() ||
        (column.lowest_is_best ? value < column.value(heads[best]) : value > column.value(heads[best]))) {
      best = i;
    }
  }
  return best;
}

std::string pair_text(const AttentionTrace& trace, const std::optional<StrongestPair>& pair) {
  if (!pair) return "-";
  const std::vector<std::string>& tokens = trace.sentences[pair->sentence].tokens;
  constexpr int kLongest = 20;
  std::string text =
      fmt::format("{:.2f} {} -> {}", pair->weight, cut_to_width(printable(tokens[pair->query]), kLongest),
                  cut_to_width(printable(tokens[pair->key]), kLongest));
  if (trace.sentences.size() > 1) text += fmt::format(" (sentence {})", pair->sentence + 1);
  return text;
}

std::string head_table(const AttendReport& report) {
  std::vector<Align> align{Align::kRight, Align::kRight};
  std::vector<std::vector<std::string>> rows{{"layer", "head"}};
  for (const HeadSummary& head : report.heads) rows.push_back({std::to_string(head.layer), std::to_string(head.head)});
  for (const NumberColumn& column : kColumns) {
    align.push_back(Align::kRight);
    // Room for the mark, so that the digits stay below each other.
    rows[0].push_back(std::string(column.title) + " ");
    const std::size_t best = best_row(report.heads, column);
    for (std::size_t i = 0; i < report.heads.size(); ++i) {
      const double value = column.value(report.heads[i]);
      rows[i + 1].push_back(std::isnan(value) ? "- " : fmt::format("{:.2f}{}", value, i == best ? "*" : " "));
    }
  }
  align.push_back(Align::kLeft);
  rows[0].push_back("strongest pair (query -> key)");
  for (std::size_t i = 0; i < report.heads.size(); ++i) {
    rows[i + 1].push_back(pair_text(*report.trace, report.heads[i].strongest));
  }
  Index tokens = 0;
  for (const TracedSentence& sentence : report.trace->sentences) tokens += sentence.seq();
  return fmt::format("Heads, means over {} (* the lowest entropy, the largest share):\n", counted(tokens, "token")) +
         text_table(align, rows);
}

// What was changed, and what each head switched off alone does.
std::string ablation_text(const AttendReport& report) {
  std::string text;
  if (report.effect) {
    std::string names;
    for (const HeadScale& scale : report.scales) {
      names +=
          (names.empty() ? "" : ", ") + head_name(scale.layer, scale.head) + fmt::format(" times {:g}", scale.scale);
    }
    text += fmt::format("\nChanged: {}. The output moves by {:.4g} of its size; what is shown is the changed model.\n",
                        names, *report.effect);
  }
  if (report.ranking.empty()) return text;
  std::vector<std::vector<std::string>> rows{{"head off", "output moves by"}};
  for (const HeadEffect& one : report.ranking) {
    rows.push_back({head_name(one.layer, one.head), fmt::format("{:.4f}", one.effect)});
  }
  const Align columns[] = {Align::kLeft, Align::kRight};
  return text + "\nEach head switched off alone, by its effect (as a share of the output's size):\n" +
         text_table(columns, rows);
}

}  // namespace

std::string attend_text(const AttendReport& report, const Terminal& terminal) {
  const ModelSizes& model = report.model;
  std::string text = fmt::format("{}: {} of {}, head_dim {}, hidden {}\n", printable(report.trace->model),
                                 counted(model.layers, "layer"), counted(model.heads, "head"),
                                 model.hidden / model.heads, model.hidden);
  text += sentence_lines(*report.trace, terminal) + "\n" + path_table(report) + "\n" + head_table(report);
  text += ablation_text(report);
  for (std::size_t i = 0; i < report.weights.size(); ++i) {
    const std::string which = report.weights.size() > 1 ? fmt::format(", sentence {}", i + 1) : "";
    text += fmt::format("\nWeights of layer {}, head {}{}: rows are queries, columns are keys, in percent:\n",
                        *report.layer, *report.head, which);
    text += shaded_table(report.weights[i].view(), report.trace->sentences[i].tokens, terminal);
  }
  return text;
}

}  // namespace headwise::cli
