// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/lens/known_mistakes.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

constexpr const char* kWho = "diagnose";
constexpr Index kMostTokens = 1024;
constexpr double kRounding = 0.01;  // of 16-bit weights, inputs and outputs
constexpr double kNearerBy = 4;     // what a mistake must be nearer than the right output
constexpr double kSame = 1e-9;      // two outputs that nothing tells apart

// Sums over everything compared.
struct Gap {
  double squares = 0;
  Index count = 0;
  void add(const Tensor<double, 2>& expected, TensorView<const double, 2> got) {
    for (Index i = 0; i < got.size(0); ++i) {
      for (Index d = 0; d < got.size(1); ++d) {
        if (!std::isfinite(got(i, d))) continue;
        squares += (expected(i, d) - got(i, d)) * (expected(i, d) - got(i, d));
        ++count;
      }
    }
  }
  double root_mean() const { return count == 0 ? INFINITY : std::sqrt(squares / static_cast<double>(count)); }
};

class Examination {
 public:
  Examination(PlainLayer layer, TensorView<const double, 3> x, TensorView<const double, 3> got)
      : layer_(std::move(layer)), x_(x), got_(got) {
    Gap size;
    const Tensor<double, 2> nothing(Shape<2>{got.size(1), got.size(2)});
    Gap right;
    for (Index b = 0; b < x.size(0); ++b) {
      right_.push_back(run_plain(layer_, x.select(0, b), got.size(1)));
      size.add(nothing, right_.back().out.cview());
      right.add(right_.back().out, got.select(0, b));
      for (Index i = 0; i < got.size(1); ++i) {
        for (Index d = 0; d < got.size(2); ++d) not_finite_ += std::isfinite(got(b, i, d)) ? 0 : 1;
      }
    }
    unit_ = size.root_mean() > 0 ? size.root_mean() : 1;
    right_distance_ = right.root_mean() / unit_;
  }

  double right() const { return right_distance_; }
  Index not_finite() const { return not_finite_; }

  MistakeDistance measure(const KnownMistake& mistake) const {
    MistakeDistance result{mistake.name, mistake.what, {}, ""};
    PlainLayer layer = layer_;
    AttentionRecipe recipe;
    if (!mistake.make(layer, recipe)) {
      result.note = "cannot be made with this layer";
      return result;
    }
    Gap gap, change;
    for (Index b = 0; b < x_.size(0); ++b) {
      const PlainRun wrong = run_plain(layer, x_.select(0, b), got_.size(1), recipe);
      gap.add(wrong.out, got_.select(0, b));
      change.add(right_[static_cast<std::size_t>(b)].out, wrong.out.cview());
    }
    if (change.root_mean() / unit_ < kSame) {
      result.note = "makes no difference here";
    } else {
      result.distance = gap.root_mean() / unit_;
    }
    return result;
  }

  MistakeDistance dropout(bool& fits) const {
    MistakeDistance result{
        "dropout_left_on", "dropout left on: weights are missing and the others larger by 1 / (1 - p)", {}, ""};
    double squares = 0;
    Index told = 0, fitting = 0, missing = 0;
    for (Index b = 0; b < x_.size(0) && not_finite_ == 0; ++b) {
      const DroppedWeights found = find_dropped_weights(layer_, right_[static_cast<std::size_t>(b)], got_.select(0, b));
      told += found.told ? 1 : 0;
      fitting += found.fits ? 1 : 0;
      missing += found.missing ? 1 : 0;
      squares += found.told ? found.distance * found.distance : 0;
      if (found.fits) result.what = fmt::format("dropout left on: p is about {:.2g}", 1 - 1 / found.factor);
    }
    fits = told > 0 && fitting == told;
    if (told == 0) {
      result.note = "cannot be told: too few rows see no more keys than a head has columns";
    } else if (missing == 0) {
      result.note = "no weight is missing";
    } else {
      result.distance = std::sqrt(squares / static_cast<double>(told));
    }
    return result;
  }

 private:
  PlainLayer layer_;
  TensorView<const double, 3> x_, got_;
  std::vector<PlainRun> right_;
  double unit_ = 1, right_distance_ = 0;
  Index not_finite_ = 0;
};

void sort_nearest_first(std::vector<MistakeDistance>& distances) {
  std::stable_sort(distances.begin(), distances.end(), [](const MistakeDistance& a, const MistakeDistance& b) {
    return a.distance.value_or(INFINITY) < b.distance.value_or(INFINITY);
  });
}

void decide(Diagnosis& result, bool dropped) {
  const double nearest = result.distances.empty() ? INFINITY : result.distances.front().distance.value_or(INFINITY);
  if (nearest <= kRounding && nearest * kNearerBy <= result.right) {
    result.verdict = Verdict::kMistake;
    for (const MistakeDistance& one : result.distances) {
      if (one.distance && *one.distance <= nearest + kSame) result.names.push_back(one.name);
    }
  } else if (result.right <= kRounding && result.not_finite == 0) {
    result.verdict = Verdict::kRight;
  } else if (dropped) {
    result.verdict = Verdict::kMistake;
    result.names.emplace_back("dropout_left_on");
  }
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kMistake:
      return "mistake";
    case Verdict::kNone:
      return "none";
  }
  return "";
}

template <class T>
Diagnosis diagnose(const AttentionLayer<T>& layer, TensorView<const T, 3> x, TensorView<const double, 3> got) {
  check_shape(kWho, "x", x, {{"batch"}, {"seq"}, {"d_in", layer.config().d_in}});
  check_shape(kWho, "got", got, {{"batch", x.size(0)}, {"seq"}, {"d_out", layer.config().d_out}});
  if (x.elements() == 0 || got.size(1) < 1 || got.size(1) > x.size(1)) {
    throw ArgumentError(fmt::format("{}: got must have 1..seq={} tokens, got {}", kWho, x.size(1), got.size(1)));
  }
  if (x.size(1) > kMostTokens) {
    throw ArgumentError(fmt::format("{}: x must have at most {} tokens, got {}", kWho, kMostTokens, x.size(1)));
  }
  Tensor<double, 3> wide(x.shape());
  copy_elements(x, wide.view());
  const Examination examination(plain_layer(layer), wide.cview(), got);
  Diagnosis result;
  result.right = examination.right();
  result.not_finite = examination.not_finite();
  for (const KnownMistake& mistake : known_mistakes()) result.distances.push_back(examination.measure(mistake));
  sort_nearest_first(result.distances);
  bool dropped = false;
  const MistakeDistance dropout = examination.dropout(dropped);
  decide(result, dropped);
  result.distances.push_back(dropout);
  sort_nearest_first(result.distances);
  return result;
}

template HEADWISE_EXPORT Diagnosis diagnose(const AttentionLayer<float>&, TensorView<const float, 3>,
                                            TensorView<const double, 3>);
template HEADWISE_EXPORT Diagnosis diagnose(const AttentionLayer<double>&, TensorView<const double, 3>,
                                            TensorView<const double, 3>);

}  // namespace headwise
