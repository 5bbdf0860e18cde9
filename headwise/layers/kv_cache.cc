// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "headwise/kernels/attention_check.h"
#include "headwise/kernels/attention_decode.h"
#include "headwise/kernels/packed_store.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/tensor.h"

namespace headwise {
namespace {

// Panels of a machine that runs the canonical program: any width does.
constexpr TileShape kPlainTile{1, 16};

void check_sizes(const KvCacheShape& s) {
  const std::pair<const char*, Index> sizes[] = {{"batch", s.batch},
                                                 {"kv_heads", s.kv_heads},
                                                 {"capacity", s.capacity},
                                                 {"head_dim", s.head_dim},
                                                 {"v_head_dim", s.v_head_dim}};
  for (const auto& [name, size] : sizes) {
    if (size < 0) throw ShapeError(std::string("KvCache: ") + name + " must be >= 0, got " + std::to_string(size));
  }
}

template <class T>
bool is_finite(T value) {
  return std::isfinite(widen<Accumulated<T>>(value));
}

}  // namespace

// The store points into the two tensors.
template <class T>
struct KvCache<T>::Panels {
  Isa isa;
  TileShape tile;
  Tensor<T, 1> keys, values;
  std::vector<unsigned char> keys_finite, values_finite;
  PackedStore<T> store;

  Panels(const KvCacheShape& shape, Isa chosen);
  Index key_offset(Index group, Index position, Index d) const;
  Index value_offset(Index group, Index position, Index d) const;
};

template <class T>
KvCache<T>::Panels::Panels(const KvCacheShape& shape, Isa chosen)
    : isa(chosen), tile(chosen == Isa::kCanonical ? kPlainTile : tile_shape_for<Accumulated<T>>(chosen)) {
  const Index groups = shape.batch * shape.kv_heads, blocks = ceil_div(shape.capacity, kKeyBlock);
  store.blocks = blocks;
  store.head_dim = shape.head_dim;
  store.v_head_dim = shape.v_head_dim;
  store.padded_v = PanelLayout{shape.v_head_dim, tile.width}.padded();
  keys = Tensor<T, 1>(Shape<1>{groups * blocks * store.keys_per_block()});
  values = Tensor<T, 1>(Shape<1>{groups * blocks * store.values_per_block()});
  keys_finite.assign(static_cast<std::size_t>(groups * blocks), 1);
  values_finite.assign(static_cast<std::size_t>(groups * blocks), 1);
  store.keys = keys.data();
  store.values = values.data();
  static_assert(sizeof(bool) == sizeof(unsigned char));
  store.keys_finite = reinterpret_cast<bool*>(keys_finite.data());
  store.values_finite = reinterpret_cast<bool*>(values_finite.data());
}

template <class T>
Index KvCache<T>::Panels::key_offset(Index group, Index position, Index d) const {
  const Index column = position % kKeyBlock, panel = column / tile.width;
  return (group * store.blocks + position / kKeyBlock) * store.keys_per_block() + panel * tile.width * store.head_dim +
         d * tile.width + column % tile.width;
}

template <class T>
Index KvCache<T>::Panels::value_offset(Index group, Index position, Index d) const {
  const PanelLayout layout{store.v_head_dim, tile.width};
  const Index panel = d / tile.width;
  return (group * store.blocks + position / kKeyBlock) * store.values_per_block() + layout.offset(panel, kKeyBlock) +
         position % kKeyBlock * layout.width_of(panel) + d % tile.width;
}

template <class T>
KvCache<T>::KvCache(const KvCacheShape& shape) : shape_(shape) {
  check_sizes(shape);
  lengths_.assign(static_cast<std::size_t>(shape.batch), 0);
  panels_ = std::make_unique<Panels>(shape, chosen_isa());
}

template <class T>
KvCache<T>::KvCache(KvCache&&) noexcept = default;
template <class T>
KvCache<T>& KvCache<T>::operator=(KvCache&&) noexcept = default;
template <class T>
KvCache<T>::~KvCache() = default;

template <class T>
std::size_t KvCache<T>::bytes() const {
  return static_cast<std::size_t>(panels_->keys.elements() + panels_->values.elements()) * sizeof(T);
}

template <class T>
void KvCache<T>::append(TensorView<const T, 4> keys, TensorView<const T, 4> values, std::span<const Index> counts) {
  constexpr const char* kWho = "KvCache.append";
  const Index tokens = keys.size(2);
  check_shape(kWho, "keys", keys,
              {{"batch", shape_.batch}, {"kv_heads", shape_.kv_heads}, {"tokens"}, {"head_dim", shape_.head_dim}});
  check_shape(
      kWho, "values", values,
      {{"batch", shape_.batch}, {"kv_heads", shape_.kv_heads}, {"tokens", tokens}, {"v_head_dim", shape_.v_head_dim}});
  if (!counts.empty()) {
    const Index got[] = {static_cast<Index>(counts.size())};
    check_shape(kWho, "counts", got, {{"batch", shape_.batch}});
  }
  for (Index b = 0; b < shape_.batch; ++b) {
    const Index count = counts.empty() ? tokens : counts[b];
    if (count < 0 || count > tokens) {
      throw ShapeError(std::string(kWho) + ": counts must be in 0..tokens=" + std::to_string(tokens) + ", got " +
                       std::to_string(count) + " at batch entry " + std::to_string(b));
    }
    if (lengths_[b] + count > shape_.capacity) {
      throw ShapeError(std::string(kWho) + ": capacity=" + std::to_string(shape_.capacity) + " does not hold " +
                       std::to_string(lengths_[b]) + " + " + std::to_string(count) + " tokens at batch entry " +
                       std::to_string(b));
    }
  }
  Panels& p = *panels_;
  for (Index b = 0; b < shape_.batch; ++b) {
    const Index count = counts.empty() ? tokens : counts[b];
    for (Index g = 0; g < shape_.kv_heads; ++g) {
      for (Index n = 0; n < count; ++n) {
        const Index position = lengths_[b] + n, at = group(b, g) * p.store.blocks + position / kKeyBlock;
        for (Index d = 0; d < shape_.head_dim; ++d) {
          const T element = keys(b, g, n, d);
          if (!is_finite(element)) p.keys_finite[at] = 0;
          p.keys.data()[p.key_offset(group(b, g), position, d)] = element;
        }
        for (Index d = 0; d < shape_.v_head_dim; ++d) {
          const T element = values(b, g, n, d);
          if (!is_finite(element)) p.values_finite[at] = 0;
          p.values.data()[p.value_offset(group(b, g), position, d)] = element;
        }
      }
    }
    lengths_[b] += count;
  }
}

template <class T>
void KvCache<T>::truncate(Index length) {
  if (length < 0) throw ShapeError("KvCache.truncate: length must be >= 0, got " + std::to_string(length));
  for (Index& held : lengths_) held = std::min(held, length);
  // Blocks that hold nothing any more are finite again; in a block that is cut, forgotten values may stay behind.
  const Index first = ceil_div(length, kKeyBlock);
  Panels& p = *panels_;
  for (Index n = 0; n < shape_.batch * shape_.kv_heads; ++n) {
    for (Index block = first; block < p.store.blocks; ++block) {
      p.keys_finite[n * p.store.blocks + block] = p.values_finite[n * p.store.blocks + block] = 1;
    }
  }
}

template <class T>
T KvCache<T>::key(Index b, Index g, Index position, Index d) const {
  return panels_->keys.data()[panels_->key_offset(group(b, g), position, d)];
}

template <class T>
T KvCache<T>::value(Index b, Index g, Index position, Index d) const {
  return panels_->values.data()[panels_->value_offset(group(b, g), position, d)];
}

template <class T>
void KvCache<T>::attend(const AttentionProblem<T>& given, const AttentionOutputs<T>& outputs,
                        const Execution& execution) const {
  constexpr const char* kWho = "KvCache.attend";
  AttentionProblem<T> problem = given;
  const Index longest = lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
  check_shape(kWho, "queries", problem.inputs.queries,
              {{"batch", shape_.batch}, {"heads"}, {"seq_q"}, {"head_dim", shape_.head_dim}});
  problem.visibility.kv_lengths = lengths_;
  if (problem.visibility.alignment == Alignment::kSelf) problem.visibility.alignment = Alignment::kLowerRight;
  const Shape<4> key_shape{shape_.batch, shape_.kv_heads, longest, shape_.head_dim};
  const Shape<4> value_shape{shape_.batch, shape_.kv_heads, longest, shape_.v_head_dim};
  if (panels_->isa != Isa::kCanonical) {
    problem.inputs.keys = {panels_->keys.data(), key_shape};
    problem.inputs.values = {panels_->values.data(), value_shape};
    return attention_decode(kWho, problem, panels_->store, panels_->isa, outputs, execution);
  }
  Tensor<T, 4> keys(key_shape), values(value_shape);
  for (Index b = 0; b < shape_.batch; ++b) {
    for (Index g = 0; g < shape_.kv_heads; ++g) {
      for (Index j = 0; j < lengths_[b]; ++j) {
        for (Index d = 0; d < shape_.head_dim; ++d) keys(b, g, j, d) = key(b, g, j, d);
        for (Index d = 0; d < shape_.v_head_dim; ++d) values(b, g, j, d) = value(b, g, j, d);
      }
    }
  }
  problem.inputs.keys = keys.cview();
  problem.inputs.values = values.cview();
  check_attention_outputs(kWho, check_attention(kWho, problem), outputs);
  attention_forward(problem, outputs, execution);
}

template class KvCache<float>;
template class KvCache<double>;
template class KvCache<float16>;
template class KvCache<bfloat16>;

}  // namespace headwise
