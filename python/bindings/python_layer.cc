// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/python_layer.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/exclusive_use.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/interruptible.h"
#include "python/bindings/requested_outputs.h"
#include "python/bindings/visibility_arguments.h"

namespace headwise::python {
namespace {

ArrayArgument required_array(std::string_view who, std::string_view name, nb::handle object, DType dtype) {
  if (object.is_none()) throw DTypeError(fmt::format("{}: {} must be a numpy array, got NoneType", who, name));
  ArrayArgument array(who, name, object);
  require_dtype(array, dtype, "the weights");
  return array;
}

// The options of one forward. In training they live until backward, with copies of the arrays they borrow.
struct HeldOptions {
  VisibilityArguments visibility;
  ArrayArgument bias;
};

constexpr const char* kTrainingCall = "a training call of this layer";

template <class T>
class PythonLayerOf final : public PythonLayer {
 public:
  explicit PythonLayerOf(AnyLayer<T> layer) : any_(std::move(layer)) {}

  DType dtype() const override { return kDTypeOf<T>; }
  const AttentionConfig& config() const override { return layer().config(); }
  const AttentionSizes& sizes() const override { return layer().sizes(); }
  std::uint64_t seed() const override { return layer().seed(); }
  Index parameter_count() const override { return layer().parameter_count(); }

  nb::object forward(const LayerHandles& given) override;
  nb::object backward(nb::handle grad_out) override;
  Diagnosis diagnosis(nb::handle x_given, nb::handle got_given) const override;
  nb::dict arrays(nb::handle owner, bool gradients) override;
  void zero_grad() override { layer().zero_grad(); }
  void load(const nb::dict& tensors) override;
  void save(const std::string& path) override {
    const nb::gil_scoped_release release;
    save_layer(path, any_);
  }
  nb::bytes pack() override {
    const std::string bytes = pack_layer(any_);
    return nb::bytes(bytes.data(), bytes.size());
  }

  PythonLayer* fuse() const override {
    return make_python_layer(AnyLayer<T>(as<MultiHeadAttentionWrapper<T>>("fuse").fuse()));
  }
  PythonLayer* split() const override {
    return make_python_layer(AnyLayer<T>(as<MultiHeadAttention<T>>("split").split()));
  }
  PythonLayer* head(Index index) const override {
    return make_python_layer(AnyLayer<T>(as<MultiHeadAttentionWrapper<T>>("head").head(index)));
  }

 private:
  AttentionLayer<T>& layer() {
    return std::visit([](auto& one) -> AttentionLayer<T>& { return one; }, any_);
  }
  const AttentionLayer<T>& layer() const {
    return std::visit([](const auto& one) -> const AttentionLayer<T>& { return one; }, any_);
  }
  template <class Layer>
  const Layer& as(const char* method) const {
    if (const Layer* wanted = std::get_if<Layer>(&any_)) return *wanted;
    throw ArgumentError(fmt::format("{}.{}: this layer has no such conversion", config().who, method));
  }
  HeldOptions take_options(const LayerHandles& given, const AttentionShape& shape) const;
  void run_forward(const ArrayArgument& x, const ArrayArgument& keys_values, const AttentionShape& shape,
                   HeldOptions options, const RequestedOutputs& requested, const nb::object& out);

  double operations(const AttentionShape& shape) const;

  AnyLayer<T> any_;
  Activations<T> activations_;
  HeldOptions held_;
  double forward_operations_ = 0;
  bool awaits_backward_ = false;
  bool in_use_ = false;
};

template <class T>
HeldOptions PythonLayerOf<T>::take_options(const LayerHandles& given, const AttentionShape& shape) const {
  const std::string& who = config().who;
  HeldOptions options{VisibilityArguments(who, AlignmentNames::kNone), ArrayArgument(who, "bias", given.bias)};
  options.visibility.take_mask(given.mask, shape);
  options.visibility.take_query_offset(given.query_offset, shape);
  options.visibility.take_kv_lengths(given.kv_lengths);
  if (config().causal) options.visibility.require_positions("causal=True", shape);
  if (options.bias.given()) require_dtype(options.bias, dtype(), "the weights");
  check_score_shape(who, options.bias, shape);
  if (training) {
    options.visibility.own_mask();
    if (options.bias.given()) options.bias = options.bias.copy();
  }
  return options;
}

// Multiply-adds of the projections and of the two products over all keys.
template <class T>
double PythonLayerOf<T>::operations(const AttentionShape& shape) const {
  const double tokens = static_cast<double>(shape.batch) * static_cast<double>(shape.seq_q + shape.seq_kv);
  const double scores = static_cast<double>(shape.batch) * static_cast<double>(shape.heads) *
                        static_cast<double>(shape.seq_q) * static_cast<double>(shape.seq_kv);
  return tokens * static_cast<double>(parameter_count()) + 2 * scores * static_cast<double>(shape.head_dim);
}

template <class T>
Diagnosis PythonLayerOf<T>::diagnosis(nb::handle x_given, nb::handle got_given) const {
  const ArrayArgument x = required_array("diagnose", "x", x_given, dtype());
  const ArrayArgument got = required_array("diagnose", "got", got_given, DType::kFloat64);
  check_shape("diagnose", "x", x.shape(), {{"batch"}, {"seq"}, {"d_in", config().d_in}});
  check_shape("diagnose", "got", got.shape(), {{"batch", x.shape()[0]}, {"seq"}, {"d_out", config().d_out}});
  const auto x_view = x.view<const T, 3>();
  const auto got_view = got.view<const double, 3>();
  const nb::gil_scoped_release release;
  return diagnose<T>(layer(), x_view, got_view);
}

template <class T>
nb::object PythonLayerOf<T>::forward(const LayerHandles& given) {
  const std::string& who = config().who;
  const ArrayArgument x = required_array(who, "x", given.x, dtype());
  check_shape(who, "x", x.shape(), {{"batch"}, {"seq"}, {"d_in", config().d_in}});
  const Index batch = x.shape()[0], seq_q = x.shape()[1];
  ArrayArgument keys_values;
  if (!given.keys_values.is_none()) {
    keys_values = required_array(who, "keys_values", given.keys_values, dtype());
    check_shape(who, "keys_values", keys_values.shape(), {{"batch", batch}, {"seq_kv"}, {"d_in", config().d_in}});
  }
  const Index seq_kv = keys_values.given() ? keys_values.shape()[1] : seq_q;
  const AttentionShape shape{batch, sizes().heads, sizes().kv_heads, seq_q, seq_kv, sizes().head_dim, sizes().head_dim};
  HeldOptions options = take_options(given, shape);
  RequestedOutputs requested(who, given.return_weights, given.stats);
  requested.check_positions(options.visibility, shape);

  const Index out_shape[] = {batch, seq_q, config().d_out};
  MemoryRequest request;
  request.add("out", out_shape, sizeof(T));
  requested.add_to(request, shape, dtype());
  request.check(who);
  const nb::object out = new_array(out_shape, dtype());
  requested.allocate(shape, x);
  run_forward(x, keys_values, shape, std::move(options), requested, out);
  if (!requested.weights() && !requested.stats()) return out;
  return nb::make_tuple(out, requested.weights_result(), requested.stats_result());
}

template <class T>
void PythonLayerOf<T>::run_forward(const ArrayArgument& x, const ArrayArgument& keys_values,
                                   const AttentionShape& shape, HeldOptions options, const RequestedOutputs& requested,
                                   const nb::object& out) {
  LayerOutputs<T> extras;
  requested.fill_views(shape, extras.weights, extras.weights_after_dropout, extras.statistics);
  const TensorView<T, 3> out_view = view_of<T, 3>(out, {shape.batch, shape.seq_q, config().d_out});
  const auto run = [&](const HeldOptions& used, Activations<T>* saved) {
    ForwardOptions<T> forward_options;
    forward_options.rule.bias = used.bias.view<const T, 4>();
    forward_options.visibility = used.visibility.visibility();
    forward_options.dropout.training = training;
    forward_options.dropout.call = training_forwards;
    run_interruptible(operations(shape), [&](const Execution& execution) {
      layer().forward_into(x.view<const T, 3>(), keys_values.view<const T, 3>(), forward_options, out_view, saved,
                           extras, execution);
    });
  };
  if (!training) return run(options, nullptr);
  const ExclusiveUse use(in_use_, config().who, kTrainingCall);
  awaits_backward_ = false;
  held_ = std::move(options);
  forward_operations_ = operations(shape);
  run(held_, &activations_);
  ++training_forwards;
  awaits_backward_ = true;
}

template <class T>
nb::object PythonLayerOf<T>::backward(nb::handle grad_out_given) {
  const std::string who = config().who + ".backward";
  if (!training) throw StateError(who + ": the layer is in eval mode; call train() before the forward");
  const ExclusiveUse use(in_use_, config().who, kTrainingCall);
  if (!awaits_backward_) throw StateError(who + ": needs a forward in training mode, once for each backward");
  const ArrayArgument grad_out = required_array(who, "grad_out", grad_out_given, dtype());
  const Shape<3> x_shape = activations_.x.shape();
  check_shape(who, "grad_out", grad_out.shape(),
              {{"batch", x_shape[0]}, {"seq", x_shape[1]}, {"d_out", config().d_out}});

  const bool cross = static_cast<bool>(activations_.keys_values);
  const nb::object grad_x = new_array(x_shape, dtype());
  nb::object grad_keys_values;
  TensorView<T, 3> grad_keys_values_view;
  if (cross) {
    grad_keys_values = new_array(activations_.keys_values.shape(), dtype());
    grad_keys_values_view = view_of<T, 3>(grad_keys_values, activations_.keys_values.shape());
  }
  const TensorView<T, 3> grad_x_view = view_of<T, 3>(grad_x, x_shape);
  awaits_backward_ = false;  // also when it is interrupted: the gradients may then hold a part of the sum
  run_interruptible(2.5 * forward_operations_, [&](const Execution& execution) {
    layer().backward(activations_, grad_out.view<const T, 3>(), grad_x_view, grad_keys_values_view, {}, execution);
  });
  return cross ? nb::object(nb::make_tuple(grad_x, grad_keys_values)) : grad_x;
}

template <class T>
nb::dict PythonLayerOf<T>::arrays(nb::handle owner, bool gradients) {
  nb::dict result;
  for (const Parameter<T>& parameter : layer().parameters()) {
    const std::vector<std::size_t> shape(parameter.shape.begin(), parameter.shape.end());
    nb::ndarray<nb::numpy, T> array(gradients ? parameter.gradient : parameter.value, shape.size(), shape.data(),
                                    owner);
    result[nb::str(parameter.name.c_str())] = nb::cast(array, nb::rv_policy::reference);
  }
  return result;
}

template <class T>
void PythonLayerOf<T>::load(const nb::dict& tensors) {
  const std::string who = config().who + ".load_state_dict";
  if (frozen) throw StateError(who + ": the layer is frozen");
  std::vector<ArrayArgument> arrays;  // keep the bytes alive
  std::vector<NamedTensor> named;
  for (const auto& [key, value] : tensors) {
    if (!nb::isinstance<nb::str>(key)) throw DTypeError(who + ": names must be str, got " + type_text(key));
    const std::string name = nb::cast<std::string>(key);
    ArrayArgument array(who, name, value);
    if (!array.given()) throw DTypeError(who + ": " + name + " must be a numpy array, got NoneType");
    if (!array.dtype()) array.refuse_dtype(dtype_name(dtype()));
    array = array.copy();
    named.push_back({name,
                     *array.dtype(),
                     {array.shape().begin(), array.shape().end()},
                     static_cast<const std::byte*>(array.data())});
    arrays.push_back(std::move(array));
  }
  layer().load(named);
}

}  // namespace

PythonLayer* make_python_layer(AnyLayer<float> layer) { return new PythonLayerOf<float>(std::move(layer)); }
PythonLayer* make_python_layer(AnyLayer<double> layer) { return new PythonLayerOf<double>(std::move(layer)); }

}  // namespace headwise::python
