// SPDX-License-Identifier: Apache-2.0
// A line chart as an SVG file's text.
#ifndef HEADWISE_CLI_LINE_CHART_H_
#define HEADWISE_CLI_LINE_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace headwise::cli {

struct ChartSeries {
  std::string name;  // for the legend; empty: not in it
  std::vector<std::pair<double, double>> points;
  bool line = true;   // joined
  bool marks = true;  // a dot for each point
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  bool doubling = false;  // the x axis counts doublings, and is marked where the points are
};

// Points that are not finite are left out.
std::string line_chart_svg(const Chart& chart);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_LINE_CHART_H_
