// SPDX-License-Identifier: Apache-2.0
// Fetches the next group's inputs into the second-level cache while the present one is computed: packing reads memory
// and computes nothing, so alone it would wait for memory, and the products would leave memory idle.
#ifndef HEADWISE_KERNELS_READ_AHEAD_H_
#define HEADWISE_KERNELS_READ_AHEAD_H_

#include <algorithm>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

class ReadAhead {
 public:
  // `rows` times `columns` elements; those of a row lie side by side, rows `row_stride` elements apart.
  template <class T>
  void add(const T* data, Index rows, Index columns, Index row_stride) {
    if (parts_ == kMostParts || columns == 0) return;
    const auto bytes = static_cast<Index>(sizeof(T));
    part_[parts_++] = {reinterpret_cast<const char*>(data), rows, row_stride * bytes, columns * bytes};
    lines_ += rows * (columns * bytes / kLine + 1);
  }

  // rows: (seq, head_dim); nothing where the last axis does not lie side by side.
  template <class T>
  void add(const TensorView<const T, 2>& rows) {
    if (rows.stride(1) == 1) add(rows.data(), rows.size(0), rows.size(1), rows.stride(0));
  }

  // All is to be fetched within about `calls` calls of step().
  void spread_over(Index calls) {
    per_step_ = std::clamp<Index>(lines_ / std::max<Index>(calls, 1) + 1, 1, kMostPerStep);
  }

  void step() {
    for (Index n = 0; n < per_step_ && at_ < parts_; ++n) {
      const Part& part = part_[at_];
      if (row_ == part.rows) {
        ++at_;
        row_ = byte_ = 0;
        continue;
      }
      __builtin_prefetch(part.data + row_ * part.row_stride + byte_, 0, 2);
      byte_ += kLine;
      if (byte_ < part.row_bytes) continue;
      byte_ = 0;
      ++row_;
    }
  }

 private:
  static constexpr int kMostParts = 8;
  static constexpr Index kLine = 64, kMostPerStep = 24;
  struct Part {
    const char* data = nullptr;
    Index rows = 0, row_stride = 0, row_bytes = 0;
  };
  Part part_[kMostParts];
  int parts_ = 0, at_ = 0;
  Index lines_ = 0, per_step_ = 0, row_ = 0, byte_ = 0;
};

}  // namespace headwise

#endif  // HEADWISE_KERNELS_READ_AHEAD_H_
