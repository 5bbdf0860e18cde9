// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/decoder_binding.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/models/decoder.h"
#include "headwise/models/training.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/array_argument.h"

namespace headwise::python {
namespace {

constexpr const char* kWho = "Decoder";

ArrayArgument int64_argument(std::string_view name, nb::handle given) {
  ArrayArgument array(kWho, name, given);
  if (!array.given() || array.dtype() != DType::kInt64) array.refuse_dtype("int64");
  check_shape(kWho, name, array.shape(), {{"batch"}, {"seq"}});
  return array;
}

template <class T>
nb::object array_of(const T* values, std::span<const Index> shape) {
  nb::object array = new_array(shape, kDTypeOf<T>);
  ArrayArgument argument(kWho, "array", array);
  std::copy_n(values, argument.elements(), static_cast<T*>(const_cast<void*>(argument.data())));
  return array;
}

// One type of decoder. Arrays go in and out by copy.
template <class T>
struct BoundDecoder {
  Decoder<T> decoder;
  DecoderActivations<T> activations;

  explicit BoundDecoder(const DecoderConfig& config) : decoder(config, Gradients::kStored) {}

  void set(const nb::dict& values) {
    std::vector<ArrayArgument> arrays;
    std::vector<NamedTensor> tensors;
    for (const auto [name, value] : values) {
      const std::string text = nb::cast<std::string>(name);
      const ArrayArgument given(kWho, text, value);
      arrays.push_back(given.copy());
      const ArrayArgument& array = arrays.back();
      if (array.dtype() != kDTypeOf<T>) array.refuse_dtype(dtype_name(kDTypeOf<T>));
      tensors.push_back({text,
                         kDTypeOf<T>,
                         {array.shape().begin(), array.shape().end()},
                         static_cast<const std::byte*>(array.data())});
    }
    decoder.load(tensors);
  }

  nb::object logits(nb::handle given) {
    const ArrayArgument ids = int64_argument("ids", given);
    const Tensor<T, 3> result = decoder.forward(ids.view<const std::int64_t, 2>());
    return array_of(result.data(), result.shape());
  }

  // (loss, gradients by name) of the mean cross-entropy.
  nb::tuple loss_and_gradients(nb::handle ids_given, nb::handle targets_given) {
    const ArrayArgument ids = int64_argument("ids", ids_given), targets = int64_argument("targets", targets_given);
    decoder.zero_grad();
    const double loss = decoder.loss_and_gradients(ids.view<const std::int64_t, 2>(),
                                                   targets.view<const std::int64_t, 2>(), {}, activations);
    nb::dict gradients;
    for (const Parameter<T>& parameter : decoder.parameters()) {
      gradients[parameter.name.c_str()] = array_of(parameter.gradient, parameter.shape);
    }
    return nb::make_tuple(loss, gradients);
  }
};

template <class T>
void bind(nb::module_& module, const char* name) {
  using Bound = BoundDecoder<T>;
  nb::class_<Bound>(module, name)
      .def("__init__",
           [](Bound* self, Index layers, Index hidden, Index heads, Index vocab, Index positions, bool bias, bool tied,
              const std::string& activation) {
             DecoderConfig config;
             config.layers = layers;
             config.hidden = hidden;
             config.heads = heads;
             config.vocab = vocab;
             config.positions = positions;
             config.bias = bias;
             config.tied = tied;
             config.activation = activation;
             new (self) Bound(config);
           })
      .def("load", &Bound::set)
      .def("logits", &Bound::logits)
      .def("loss_and_gradients", &Bound::loss_and_gradients);
}

// A run with nanoGPT's settings for everything that is not asked for here: for the bench, which trains torch beside it.
struct BoundTraining {
  Training training;

  BoundTraining(const DecoderConfig& decoder, const TrainingConfig& config, std::string_view text)
      : training(decoder, config, text) {}

  nb::dict weights() {
    nb::dict result;
    for (const Parameter<float>& parameter : training.decoder().parameters()) {
      result[parameter.name.c_str()] = array_of(parameter.value, parameter.shape);
    }
    return result;
  }

  nb::tuple batch(Index step) {
    const Shape<2> shape{training.config().batch, training.decoder().config().positions};
    Tensor<std::int64_t, 2> ids(shape), targets(shape);
    training.draw_batch(step, ids.view(), targets.view());
    return nb::make_tuple(array_of(ids.data(), shape), array_of(targets.data(), shape));
  }
};

void bind_training(nb::module_& module) {
  nb::class_<BoundTraining>(module, "Training")
      .def("__init__",
           [](BoundTraining* self, const nb::bytes& text, Index layers, Index hidden, Index heads, Index positions,
              Index batch, Index steps, std::uint64_t seed) {
             DecoderConfig decoder;
             decoder.layers = layers;
             decoder.hidden = hidden;
             decoder.heads = heads;
             decoder.positions = positions;
             decoder.bias = false;
             TrainingConfig config;
             config.batch = batch;
             config.learning_rate.steps = steps;
             config.learning_rate.warm_up = steps / 20;
             config.seed = seed;
             new (self) BoundTraining(decoder, config, {text.c_str(), text.size()});
           })
      .def("step", [](BoundTraining& self) { return self.training.step(); })
      .def("evaluate", [](BoundTraining& self) { return self.training.evaluate(); })
      .def("learning_rate",
           [](const BoundTraining& self, Index step) { return self.training.config().learning_rate.at(step); })
      .def("vocab", [](const BoundTraining& self) { return self.training.vocabulary().size(); })
      .def("weights", &BoundTraining::weights)
      .def("batch", &BoundTraining::batch);
}

}  // namespace

void bind_decoder(nb::module_& module) {
  bind<float>(module, "Decoder32");
  bind<double>(module, "Decoder64");
  bind_training(module);
}

}  // namespace headwise::python
