// SPDX-License-Identifier: Apache-2.0
// What `headwise attend` found, as text for people and as JSON.
#ifndef HEADWISE_CLI_ATTEND_REPORT_H_
#define HEADWISE_CLI_ATTEND_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/attend_options.h"
#include "cli/terminal.h"
#include "headwise/lens/attention_trace.h"
#include "headwise/lens/head_summary.h"
#include "headwise/lens/shape_path.h"
#include "headwise/tensor/tensor.h"

namespace headwise::cli {

struct AttendReport {
  ModelSizes model;
  const AttentionTrace* trace = nullptr;
  Index path_layer = 0;
  std::vector<ShapeStep> path;            // of the first sentence through that layer
  std::vector<HeadSummary> heads;         // by layer, then head
  std::optional<Index> layer, head;       // as asked for
  std::vector<Tensor<float, 2>> weights;  // with a head: of each sentence, (seq, seq)
  std::vector<HeadScale> scales;          // heads that were off or scaled
  std::optional<double> effect;           // of the scales on the output
  std::vector<HeadEffect> ranking;        // of --ablate all
};

std::string attend_text(const AttendReport& report, const Terminal& terminal);

// Schema 1, one line. Numbers that JSON cannot write (NaN) are null.
std::string attend_json(const AttendReport& report);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_ATTEND_REPORT_H_
