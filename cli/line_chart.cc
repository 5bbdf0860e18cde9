// SPDX-License-Identifier: Apache-2.0
#include "cli/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace headwise::cli {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 70, kRight = 20, kTop = 48, kBottom = 56;
// Told apart by people who do not see all colours (Okabe and Ito).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7"};

struct Range {
  double low = 0, high = 1;
  double share(double value) const { return (value - low) / (high - low); }
};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '&') {
      result += "&amp;";
    } else if (letter == '<') {
      result += "&lt;";
    } else {
      result += letter;
    }
  }
  return result;
}

// About `count` steps of 1, 2 or 5 times a power of ten.
double tick_step(const Range& range, int count) {
  const double rough = (range.high - range.low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::vector<double> ticks(const Range& range, int count) {
  const double step = tick_step(range, count);
  std::vector<double> result;
  for (double n = std::ceil(range.low / step - 1e-9); n * step <= range.high + step * 1e-9; ++n) {
    result.push_back(n * step);
  }
  return result;
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    for (const ChartSeries& series : chart.series) {
      std::vector<std::pair<double, double>> points;
      for (auto [x, y] : series.points) {
        if (chart.doubling) x = std::log2(x);
        if (std::isfinite(x) && std::isfinite(y)) points.emplace_back(x, y);
      }
      points_.push_back(std::move(points));
    }
    x_ = range_of(&std::pair<double, double>::first, 0);
    y_ = range_of(&std::pair<double, double>::second, 0.06);
  }

  std::string text() {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        kWidth, kHeight);
    label(kLeft, 26, "start", chart_.title, " font-size=\"15\" font-weight=\"bold\"");
    axes();
    for (std::size_t n = 0; n < points_.size(); ++n) draw(n);
    legend();
    return svg_ + "</svg>\n";
  }

 private:
  Range range_of(double std::pair<double, double>::*axis, double margin) const {
    Range range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const auto& series : points_) {
      for (const auto& point : series) {
        range.low = std::min(range.low, point.*axis);
        range.high = std::max(range.high, point.*axis);
      }
    }
    if (range.low > range.high) return {};
    if (range.low == range.high) return {range.low - 0.5, range.high + 0.5};
    const double room = margin * (range.high - range.low);
    return {range.low - room, range.high + room};
  }

  double across(double x) const { return kLeft + x_.share(x) * (kWidth - kLeft - kRight); }
  double down(double y) const { return kHeight - kBottom - y_.share(y) * (kHeight - kTop - kBottom); }

  void label(double x, double y, const char* anchor, const std::string& text, const std::string& more = "") {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                        escaped(text));
  }

  void grid_line(double x1, double y1, double x2, double y2) {
    svg_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1, x2,
                        y2);
  }

  void axes() {
    std::vector<double> marks;
    if (chart_.doubling) {
      std::set<double> places;
      for (const auto& series : points_) {
        for (const auto& point : series) places.insert(point.first);
      }
      marks.assign(places.begin(), places.end());
    } else {
      marks = ticks(x_, 8);
    }
    for (const double x : marks) {
      grid_line(across(x), kTop, across(x), kHeight - kBottom);
      label(across(x), kHeight - kBottom + 18, "middle", fmt::format("{:.6g}", chart_.doubling ? std::exp2(x) : x));
    }
    for (const double y : ticks(y_, 6)) {
      grid_line(kLeft, down(y), kWidth - kRight, down(y));
      label(kLeft - 8, down(y) + 4, "end", fmt::format("{:.4g}", y));
    }
    label((kLeft + kWidth - kRight) / 2, kHeight - 14, "middle", chart_.x_label);
    const double middle = (kTop + kHeight - kBottom) / 2;
    label(18, middle, "middle", chart_.y_label, fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
  }

  void draw(std::size_t n) {
    const ChartSeries& series = chart_.series[n];
    const char* colour = kColours[n % std::size(kColours)];
    if (series.line && points_[n].size() > 1) {
      std::string path;
      for (const auto& [x, y] : points_[n]) path += fmt::format(" {:.1f},{:.1f}", across(x), down(y));
      svg_ += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" points=\"{}\"/>\n", colour,
                          path.substr(1));
    }
    if (!series.marks) return;
    for (const auto& [x, y] : points_[n]) {
      svg_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\" fill=\"{}\"/>\n", across(x), down(y), colour);
    }
  }

  void legend() {
    double y = kTop + 16;
    for (std::size_t n = 0; n < chart_.series.size(); ++n) {
      if (chart_.series[n].name.empty()) continue;
      svg_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"4\" fill=\"{}\"/>\n",
                          kWidth - kRight - 24, y - 6, kColours[n % std::size(kColours)]);
      label(kWidth - kRight - 30, y, "end", chart_.series[n].name);
      y += 18;
    }
  }

  const Chart& chart_;
  std::vector<std::vector<std::pair<double, double>>> points_;
  Range x_, y_;
  std::string svg_;
};

}  // namespace

std::string line_chart_svg(const Chart& chart) { return Drawing(chart).text(); }

}  // namespace headwise::cli
