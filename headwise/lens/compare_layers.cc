// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/compare_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>

#include "headwise/layers/multi_head_attention.h"
#include "headwise/layers/multi_head_attention_layer.h"
#include "headwise/runtime/random.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

using Clock = std::chrono::steady_clock;
using Wrapper = MultiHeadAttentionWrapper<float>;

constexpr double kLeastSeconds = 5e-4;  // one measurement repeats a forward until it takes so long

void check_shape_of(const CompareShape& shape) {
  const std::pair<const char*, Index> counts[] = {{"batch", shape.batch}, {"seq", shape.seq}, {"rounds", shape.rounds}};
  for (const auto& [name, value] : counts) {
    if (value < 1) throw ArgumentError(fmt::format("compare: {} must be at least 1, got {}", name, value));
  }
  check_width("compare", "d_in", shape.d_in);
  check_width("compare", "d_out", shape.d_out);
  for (const Index heads : shape.heads) check_width("compare", "heads", heads);
}

Tensor<float, 3> random_input(const CompareShape& shape) {
  Tensor<float, 3> x({shape.batch, shape.seq, shape.d_in});
  TorchGenerator generator(1);
  generator.fill_normal({x.data(), static_cast<std::size_t>(x.elements())}, 0, 1);
  return x;
}

// H layers of one head, and the outputs side by side: what [head(x) for head in self.heads] and cat do.
class Loop {
 public:
  explicit Loop(const Wrapper& wrapper) {
    for (Index i = 0; i < wrapper.sizes().heads; ++i) heads_.push_back(wrapper.head(i));
  }
  Tensor<float, 3> forward(TensorView<const float, 3> x) const {
    std::vector<Tensor<float, 3>> parts;
    parts.reserve(heads_.size());
    for (const CausalSelfAttention<float>& head : heads_) parts.push_back(head.forward(x));
    const Index width = heads_.front().config().d_out;
    Tensor<float, 3> out({x.size(0), x.size(1), width * static_cast<Index>(heads_.size())});
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Index first = static_cast<Index>(i) * width;
      copy_elements(parts[i].cview(), out.view().slice(2, first, first + width));
    }
    return out;
  }

 private:
  std::vector<CausalSelfAttention<float>> heads_;
};

// One head over the whole width with the weights of all heads.
MultiHeadAttentionLayer<float> single_head(const MultiHeadAttention<float>& split) {
  const Index d_in = split.config().d_in, width = split.config().d_out;
  MultiHeadAttentionLayer<float> one(d_in, width, {}, 0, 1, false, true, 1);
  copy_elements(split.qkv().weight(), one.qkv().weight());
  return one;
}

double seconds_of(const std::function<void()>& forward, Index repeats) {
  const Clock::time_point start = Clock::now();
  for (Index i = 0; i < repeats; ++i) forward();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Medians over interleaved rounds, in microseconds.
std::array<double, 4> measure(const std::array<std::function<void()>, 4>& forwards, Index rounds,
                              const Execution& execution) {
  std::array<Index, 4> repeats{};
  std::array<std::vector<double>, 4> times;
  for (std::size_t way = 0; way < 4; ++way) {
    forwards[way]();  // the first one makes scratch memory
    const double once = std::max(seconds_of(forwards[way], 1), 1e-8);
    repeats[way] = std::max<Index>(1, static_cast<Index>(std::ceil(kLeastSeconds / once)));
  }
  for (Index round = 0; round < rounds; ++round) {
    for (std::size_t way = 0; way < 4; ++way) {
      if (execution.cancelled()) throw Cancelled();
      times[way].push_back(1e6 * seconds_of(forwards[way], repeats[way]) / static_cast<double>(repeats[way]));
    }
  }
  std::array<double, 4> medians{};
  for (std::size_t way = 0; way < 4; ++way) {
    std::sort(times[way].begin(), times[way].end());
    const std::size_t middle = times[way].size() / 2;
    medians[way] = times[way].size() % 2 == 1 ? times[way][middle] : (times[way][middle - 1] + times[way][middle]) / 2;
  }
  return medians;
}

Index differing(const Tensor<float, 3>& a, const Tensor<float, 3>& b) {
  Index count = 0;
  for (Index i = 0; i < a.elements(); ++i)
    count += std::bit_cast<std::uint32_t>(a.data()[i]) != std::bit_cast<std::uint32_t>(b.data()[i]) ? 1 : 0;
  return count;
}

ComparedHeads compare_heads(const CompareShape& shape, Index heads, const Tensor<float, 3>& x,
                            const Execution& execution) {
  const WrapperOptions options{.seed = 123};
  const Wrapper wrapper = shape.width_per_head ? Wrapper::with_head_width(shape.d_in, shape.d_out, heads, options)
                                               : Wrapper::with_total_width(shape.d_in, shape.d_out, heads, options);
  const MultiHeadAttention<float> split = wrapper.fuse();
  const MultiHeadAttentionLayer<float> single = single_head(split);
  const Loop loop(wrapper);
  const Tensor<float, 3> stacked_out = wrapper.forward(x.cview()), single_out = single.forward(x.cview());
  ComparedHeads result;
  result.heads = heads;
  result.head_dim = wrapper.sizes().head_dim;
  result.width = wrapper.config().d_out;
  result.numbers = stacked_out.elements();
  result.loop_differs = differing(stacked_out, loop.forward(x.cview()));
  result.split_differs = differing(stacked_out, split.forward(x.cview()));
  for (Index i = 0; i < stacked_out.elements(); ++i) {
    const double gap = std::abs(static_cast<double>(stacked_out.data()[i]) - single_out.data()[i]);
    result.single_difference = std::max(result.single_difference, gap);
  }
  const std::array<double, 4> times = measure({[&] { loop.forward(x.cview()); }, [&] { wrapper.forward(x.cview()); },
                                               [&] { split.forward(x.cview()); }, [&] { single.forward(x.cview()); }},
                                              shape.rounds, execution);
  const Index tokens = shape.batch * shape.seq, width = result.width;
  for (std::size_t way = 0; way < 4; ++way) {
    // The loop projects one head at a time, and holds every head's output until all are joined.
    const Index held = way == 0 ? tokens * (3 * result.head_dim + 2 * width) : tokens * (3 * width + width);
    result.ways[way] = {times[way], wrapper.parameter_count(), held};
  }
  result.ways[3].parameters = single.parameter_count();
  return result;
}

}  // namespace

std::vector<ComparedHeads> compare_layers(const CompareShape& shape, const Execution& execution) {
  check_shape_of(shape);
  const Tensor<float, 3> x = random_input(shape);
  std::vector<ComparedHeads> result;
  for (const Index heads : shape.heads) result.push_back(compare_heads(shape, heads, x, execution));
  return result;
}

}  // namespace headwise
