// SPDX-License-Identifier: Apache-2.0
// What `headwise explain` found, for the terminal, as a page and as JSON.
#ifndef HEADWISE_CLI_EXPLAIN_REPORT_H_
#define HEADWISE_CLI_EXPLAIN_REPORT_H_

#include <string>
#include <vector>

#include "headwise/lens/explain.h"

namespace headwise::cli {

struct ExplainReport {
  std::string layer;  // its path, or "default"
  std::string input;  // its path, or "" where the numbers were made up
  Explanation found;
};

// The first lines: which layer, which input.
std::vector<std::string> explain_headline(const ExplainReport& report);
// Rows of step, shape, strides and origin.
ExplainTable path_rows(const Explanation& found);

std::string explain_text(const ExplainReport& report, int width);
// One file without anything outside it.
std::string explain_html(const ExplainReport& report);
std::string explain_json(const ExplainReport& report);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_EXPLAIN_REPORT_H_
