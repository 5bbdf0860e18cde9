// SPDX-License-Identifier: Apache-2.0
// Keys and values of the tokens so far, kept in the panels that the kernels read.
#ifndef HEADWISE_LAYERS_KV_CACHE_H_
#define HEADWISE_LAYERS_KV_CACHE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "headwise/kernels/attention.h"

namespace headwise {

struct KvCacheShape {
  Index batch = 0, kv_heads = 0, capacity = 0, head_dim = 0, v_head_dim = 0;
};

// T is the storage type: float, double, float16 or bfloat16. The capacity is fixed; each batch entry has its own
// length. Not safe for use by two threads at once.
template <class T>
class KvCache {
 public:
  // Throws ShapeError when a size is negative, std::bad_alloc when the memory cannot be had.
  explicit KvCache(const KvCacheShape& shape);
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;
  ~KvCache();

  const KvCacheShape& shape() const { return shape_; }
  // Keys held, per batch entry.
  std::span<const Index> lengths() const { return lengths_; }
  std::size_t bytes() const;

  // Appends tokens behind those of each entry. keys: (batch, kv_heads, tokens, head_dim), values: (batch, kv_heads,
  // tokens, v_head_dim), any strides. counts: how many of the tokens each entry takes, (batch,), or empty for all.
  // Throws ShapeError ("KvCache.append: ...") before anything is written: wrong sizes, another batch, or a length
  // beyond the capacity.
  void append(TensorView<const T, 4> keys, TensorView<const T, 4> values, std::span<const Index> counts = {});

  // Forgets the tokens from `length` on, of every entry; 0 empties the cache. A negative length is a
  // ShapeError.
  void truncate(Index length);

  // One stored key or value, exactly as appended.
  T key(Index batch, Index kv_head, Index position, Index d) const;
  T value(Index batch, Index kv_head, Index position, Index d) const;

  // Attention of queries (batch, heads, seq_q, head_dim) against the cache; rule, visibility and dropout as in
  // attention_forward, with kv_lengths set to lengths(). Query rows stand at the end (Alignment::kLowerRight) unless an
  // alignment is given. Same bits as attention_forward over the same tokens. Throws as that does
  // ("KvCache.attend: ...").
  void attend(const AttentionProblem<T>& problem, const AttentionOutputs<T>& outputs,
              const Execution& execution = {}) const;

 private:
  struct Panels;  // their format is the kernels' own

  Index group(Index batch, Index kv_head) const { return batch * shape_.kv_heads + kv_head; }

  KvCacheShape shape_;
  std::vector<Index> lengths_;
  std::unique_ptr<Panels> panels_;
};

extern template class KvCache<float>;
extern template class KvCache<double>;
extern template class KvCache<float16>;
extern template class KvCache<bfloat16>;

}  // namespace headwise

#endif  // HEADWISE_LAYERS_KV_CACHE_H_
