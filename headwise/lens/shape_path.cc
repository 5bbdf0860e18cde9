// SPDX-License-Identifier: Apache-2.0
#include "headwise/lens/shape_path.h"

#include <utility>

#include "headwise/tensor/tensor_view.h"

namespace headwise {
namespace {

class Path {
 public:
  // A step that is `view`; it is no copy when it starts where the step before started.
  template <int Rank>
  void add(std::string name, std::string how, std::vector<std::string> axes,
           const TensorView<const float, Rank>& view) {
    const bool shares = view.data() == last_;
    last_ = view.data();
    steps_.push_back({std::move(name),
                      std::move(how),
                      std::move(axes),
                      {view.shape().begin(), view.shape().end()},
                      {view.strides().begin(), view.strides().end()},
                      shares ? StepMemory::kView : StepMemory::kNew});
  }
  void add_unstored(std::string name, std::string how, std::vector<std::string> axes, std::vector<Index> shape) {
    last_ = nullptr;
    steps_.push_back(
        {std::move(name), std::move(how), std::move(axes), std::move(shape), {}, StepMemory::kNeverStored});
  }
  std::vector<ShapeStep> take() { return std::move(steps_); }

 private:
  std::vector<ShapeStep> steps_;
  const float* last_ = nullptr;
};

}  // namespace

std::vector<ShapeStep> shape_path(const AttentionConfig& config, Index batch, Index seq) {
  const AttentionSizes sizes = check_config(config);
  // The seeds call it d_out; it is another number only where head_dim was chosen freely.
  const std::string width = sizes.query_width() == config.d_out ? "d_out" : "heads * head_dim";
  // Only addresses are compared, so one number stands for each block.
  const float input = 0, projected = 0, merged = 0, output = 0;
  Path path;
  path.add<3>("input", "", {"batch", "seq", "d_in"}, {&input, {batch, seq, config.d_in}});
  // Queries, keys and values are one product with the stacked weights; the queries are its first columns.
  const TensorView<const float, 3> stacked(&projected, {batch, seq, sizes.stacked_rows()});
  const TensorView<const float, 3> queries = stacked.slice(2, 0, sizes.query_width());
  const auto split = queries.split(2, sizes.heads);
  path.add("queries", "input W_query^T", {"batch", "seq", width}, queries);
  path.add("split", "queries by head", {"batch", "seq", "heads", "head_dim"}, split);
  path.add("transposed", "heads before tokens", {"batch", "heads", "seq", "head_dim"}, split.transpose(1, 2));
  const std::vector<std::string> square{"batch", "heads", "seq", "seq"};
  path.add_unstored("scores", "queries keys^T / sqrt(head_dim)", square, {batch, sizes.heads, seq, seq});
  path.add_unstored("weights", "softmax over the keys", square, {batch, sizes.heads, seq, seq});
  // The kernel writes each head's context where the merged tensor has it.
  const TensorView<const float, 3> whole(&merged, {batch, seq, sizes.query_width()});
  path.add("context", "weights values", {"batch", "heads", "seq", "head_dim"},
           whole.split(2, sizes.heads).transpose(1, 2));
  path.add("merged", "heads side by side", {"batch", "seq", width}, whole);
  if (config.out_proj) {
    path.add<3>("output", "merged W_out^T + b_out", {"batch", "seq", "d_out"}, {&output, {batch, seq, config.d_out}});
  }
  return path.take();
}

std::string_view memory_name(StepMemory memory) {
  switch (memory) {
    case StepMemory::kNew:
      return "new";
    case StepMemory::kView:
      return "view";
    case StepMemory::kNeverStored:
      return "not stored";
  }
  return "";
}

}  // namespace headwise
