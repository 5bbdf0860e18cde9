// SPDX-License-Identifier: Apache-2.0
// What `headwise run` found, as text for people and as JSON.
#ifndef HEADWISE_CLI_RUN_LAYER_REPORT_H_
#define HEADWISE_CLI_RUN_LAYER_REPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "headwise/layers/attention_config.h"
#include "headwise/tensor/dtype.h"

namespace headwise::cli {

struct ReportedArray {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<Index> shape;
};

// Of the output's elements that are finite.
struct ValueRange {
  double least = 0, most = 0, mean = 0;
  Index finite = 0, not_finite = 0;
};

struct RunLayerReport {
  std::string layer_path, input_path, keys_values_path, out_path;
  AttentionConfig config;
  AttentionSizes sizes;
  ReportedArray input, keys_values, out;
  ValueRange values;
  Index queries = 0;                                               // in the input
  Index seeing = 0;                                                // that see a key: over these the means are
  std::vector<std::pair<std::string, std::vector<double>>> means;  // a statistic, and its mean for each head
  std::vector<ReportedArray> written;
};

std::string run_layer_text(const RunLayerReport& report);

// Schema 1, one line. Numbers that JSON cannot write (NaN) are null.
std::string run_layer_json(const RunLayerReport& report);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_RUN_LAYER_REPORT_H_
