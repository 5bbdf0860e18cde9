// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/kv_cache_binding.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "headwise/layers/kv_cache.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/exclusive_use.h"
#include "python/bindings/forward_results.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/interruptible.h"
#include "python/bindings/scalar_argument.h"

namespace headwise::python {
namespace {

using H = nb::handle;

constexpr Index kLargestSize = Index{1} << 24;
constexpr Index kBlock = 256;  // a cache holds whole blocks of so many keys

DType dtype_argument(H given) {
  constexpr const char* kExpected = "KvCache: dtype must be float32, float64, float16 or bfloat16, got ";
  if (!nb::isinstance<nb::str>(given)) throw DTypeError(kExpected + type_text(given));
  const std::string name = nb::cast<std::string>(given);
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw DTypeError(kExpected + name);
}

ArrayArgument appended(const char* name, H given, DType dtype) {
  if (given.is_none()) throw DTypeError(fmt::format("KvCache.append: {} must be a numpy array, got NoneType", name));
  ArrayArgument array("KvCache.append", name, given);
  require_dtype(array, dtype, "the cache");
  return array;
}

// The cache of either type. Every call that reads or writes keys keeps other threads out.
class PythonKvCache {
 public:
  PythonKvCache(const KvCacheShape& shape, DType dtype) : shape_(shape), dtype_(dtype), cache_(make(shape, dtype)) {}

  void append(H k_given, H v_given, H counts_given);
  nb::object attend(const AttentionHandles& given, const ResultHandles& wanted);
  // (keys, values): (batch, kv_heads, longest length, head_dim) and (..., v_head_dim), 0 behind an entry's length.
  nb::object tokens();
  void truncate(H length_given);

  const KvCacheShape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::size_t bytes() const {
    return std::visit([](const auto& cache) { return cache.bytes(); }, cache_);
  }
  std::span<const Index> lengths() const {
    return std::visit([](const auto& cache) { return cache.lengths(); }, cache_);
  }

 private:
  using Cache = std::variant<KvCache<float>, KvCache<double>, KvCache<float16>, KvCache<bfloat16>>;

  static Cache make(const KvCacheShape& shape, DType dtype) {
    return with_float_type(dtype, [&](auto zero) { return Cache(std::in_place_type<KvCache<decltype(zero)>>, shape); });
  }
  ExclusiveUse use(const char* method) {
    return ExclusiveUse(in_use_, fmt::format("KvCache.{}", method), "a call of this cache");
  }

  KvCacheShape shape_;
  DType dtype_;
  Cache cache_;
  bool in_use_ = false;
};

void PythonKvCache::append(H k_given, H v_given, H counts_given) {
  constexpr const char* kWho = "KvCache.append";
  const ArrayArgument k = appended("k", k_given, dtype_), v = appended("v", v_given, dtype_);
  const Axis batch{"batch", shape_.batch}, kv_heads{"kv_heads", shape_.kv_heads};
  check_shape(kWho, "k", k.shape(), {batch, kv_heads, {"tokens"}, {"head_dim", shape_.head_dim}});
  check_shape(kWho, "v", v.shape(), {batch, kv_heads, {"tokens", k.shape()[2]}, {"v_head_dim", shape_.v_head_dim}});
  std::vector<Index> counts;
  if (!counts_given.is_none()) {
    counts = integers_argument({kWho, "counts"}, counts_given);
    const Index got[] = {static_cast<Index>(counts.size())};
    check_shape(kWho, "counts", got, {batch});
  }
  const ExclusiveUse alone = use("append");
  with_float_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const auto keys = k.view<const T, 4>(), values = v.view<const T, 4>();
    const nb::gil_scoped_release release;
    std::get<KvCache<T>>(cache_).append(keys, values, counts);
  });
}

// The context alone, or the fields of AttentionResult but the last.
nb::object PythonKvCache::attend(const AttentionHandles& given, const ResultHandles& wanted) {
  const ExclusiveUse alone = use("attend");
  const std::span<const Index> held = lengths();
  const Index longest = held.empty() ? 0 : *std::max_element(held.begin(), held.end());
  const CachedKeys keys{dtype_, shape_.batch, shape_.kv_heads, longest, shape_.head_dim, shape_.v_head_dim};
  const AttentionCall call("KvCache.attend", given, keys);
  const ForwardResults results(call, wanted);
  with_float_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const KvCache<T>& cache = std::get<KvCache<T>>(cache_);
    const AttentionOutputs<T> outputs = results.outputs<T>();
    const AttentionProblem<T> problem = call.problem<T>();
    run_interruptible(call.operations(),
                      [&](const Execution& execution) { cache.attend(problem, outputs, execution); });
  });
  if (results.only_context()) return results.context();
  return nb::make_tuple(results.context(), results.lse(), results.weights(), results.stats());
}

nb::object PythonKvCache::tokens() {
  const ExclusiveUse alone = use("tokens");
  Index longest = 0;
  for (const Index length : lengths()) longest = std::max(longest, length);
  const Shape<4> key_shape{shape_.batch, shape_.kv_heads, longest, shape_.head_dim};
  const Shape<4> value_shape{shape_.batch, shape_.kv_heads, longest, shape_.v_head_dim};
  const nb::object keys = new_array(key_shape, dtype_), values = new_array(value_shape, dtype_);
  with_float_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const auto& cache = std::get<KvCache<T>>(cache_);
    const auto to_keys = view_of<T, 4>(keys, key_shape), to_values = view_of<T, 4>(values, value_shape);
    for (Index b = 0; b < shape_.batch; ++b) {
      for (Index head = 0; head < shape_.kv_heads; ++head) {
        for (Index at = 0; at < longest; ++at) {
          const bool stored = at < lengths()[static_cast<std::size_t>(b)];
          for (Index d = 0; d < shape_.head_dim; ++d)
            to_keys(b, head, at, d) = stored ? cache.key(b, head, at, d) : T{};
          for (Index d = 0; d < shape_.v_head_dim; ++d) {
            to_values(b, head, at, d) = stored ? cache.value(b, head, at, d) : T{};
          }
        }
      }
    }
  });
  return nb::make_tuple(keys, values);
}

void PythonKvCache::truncate(H length_given) {
  const Index length = integer_argument({"KvCache.truncate", "length"}, length_given, 0, shape_.capacity);
  const ExclusiveUse alone = use("truncate");
  std::visit([&](auto& cache) { cache.truncate(length); }, cache_);
}

void construct(PythonKvCache* self, H batch, H kv_heads, H capacity, H head_dim, H v_head_dim, H dtype_given) {
  const auto size = [](std::string_view name, H given) {
    return integer_argument({"KvCache", name}, given, 0, kLargestSize);
  };
  KvCacheShape shape{size("batch", batch), size("kv_heads", kv_heads), size("capacity", capacity),
                     size("head_dim", head_dim), 0};
  shape.v_head_dim = v_head_dim.is_none() ? shape.head_dim : size("v_head_dim", v_head_dim);
  const DType dtype = dtype_argument(dtype_given);
  const Index keys = (shape.capacity + kBlock - 1) / kBlock * kBlock;
  MemoryRequest request;
  const Index elements[] = {shape.batch, shape.kv_heads, keys, shape.head_dim + shape.v_head_dim + 1};
  request.add(fmt::format("{} keys and values for each of batch={} and kv_heads={}", shape.capacity, shape.batch,
                          shape.kv_heads),
              elements, dtype_bytes(dtype));
  request.check("KvCache");
  new (self) PythonKvCache(shape, dtype);
}

// A new array: a later append does not change it.
nb::object lengths_array(const PythonKvCache& cache) {
  const std::span<const Index> lengths = cache.lengths();
  const Shape<1> shape{static_cast<Index>(lengths.size())};
  const nb::object array = new_array(shape, DType::kInt64);
  std::copy(lengths.begin(), lengths.end(), view_of<Index, 1>(array, shape).data());
  return array;
}

}  // namespace

void bind_kv_cache(nb::module_& module) {
  const auto none = nb::arg().none();
  nb::class_<PythonKvCache>(module, "KvCache", "Keys and values in C++, behind headwise.KvCache.")
      .def("__init__", construct, none, none, none, none, none, none)
      .def("append", &PythonKvCache::append, none, none, none)
      .def(
          "attend",
          [](PythonKvCache& cache, H q, H mask, H bias, H causal, H query_offset, H window, H scale, H softcap,
             H alibi_slopes, H sinks, H return_lse, H return_weights, H stats, H out) {
            AttentionHandles given;
            given.q = q;
            given.mask = mask;
            given.bias = bias;
            given.causal = causal;
            given.query_offset = query_offset;
            given.window = window;
            given.scale = scale;
            given.softcap = softcap;
            given.alibi_slopes = alibi_slopes;
            given.sinks = sinks;
            return cache.attend(given, {nb::borrow(return_lse), nb::borrow(return_weights), nb::borrow(stats),
                                        nb::bool_(false), nb::borrow(out)});
          },
          none, none, none, none, none, none, none, none, none, none, none, none, none, none)
      .def("tokens", &PythonKvCache::tokens)
      .def("truncate", &PythonKvCache::truncate, none)
      .def_prop_ro("lengths", lengths_array)
      .def_prop_ro("batch", [](const PythonKvCache& cache) { return cache.shape().batch; })
      .def_prop_ro("kv_heads", [](const PythonKvCache& cache) { return cache.shape().kv_heads; })
      .def_prop_ro("capacity", [](const PythonKvCache& cache) { return cache.shape().capacity; })
      .def_prop_ro("head_dim", [](const PythonKvCache& cache) { return cache.shape().head_dim; })
      .def_prop_ro("v_head_dim", [](const PythonKvCache& cache) { return cache.shape().v_head_dim; })
      .def_prop_ro("dtype", [](const PythonKvCache& cache) { return std::string(dtype_name(cache.dtype())); })
      .def_prop_ro("nbytes", &PythonKvCache::bytes);
}

}  // namespace headwise::python
