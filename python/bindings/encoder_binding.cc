// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/encoder_binding.h"

#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <vector>

#include "headwise/checkpoints/load_encoder.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/array_argument.h"
#include "python/bindings/free_memory.h"
#include "python/bindings/interruptible.h"

namespace headwise::python {
namespace {

constexpr const char* kWho = "Encoder.run";

// ids and lengths are read where they lie, so they must be int64.
ArrayArgument int64_argument(std::string_view name, nb::handle given) {
  ArrayArgument array(kWho, name, given);
  if (!array.given())
    throw DTypeError(std::string(kWho) + ": " + std::string(name) + " must be a numpy array, got NoneType");
  if (array.dtype() != DType::kInt64) array.refuse_dtype("int64");
  return array;
}

std::vector<Index> take_lengths(const ArrayArgument& lengths, Index batch) {
  check_shape(kWho, "lengths", lengths.shape(), {{"batch", batch}});
  const auto view = lengths.view<const std::int64_t, 1>();
  std::vector<Index> values(static_cast<std::size_t>(batch));
  for (Index row = 0; row < batch; ++row) values[row] = view(row);
  return values;
}

// Multiply-adds, with a feed-forward part four times as wide.
double operations(const EncoderConfig& config, Index batch, Index seq) {
  const double tokens = static_cast<double>(batch) * static_cast<double>(seq);
  const double width = static_cast<double>(config.hidden);
  return static_cast<double>(config.layers) * tokens * width * (12 * width + 2 * static_cast<double>(seq));
}

// ids (batch, seq) and lengths (batch,), int64 -> hidden (layers, batch, seq, hidden) after each layer, and weights
// (layers, batch, heads, seq, seq); both 0 at padding.
nb::tuple run(const Encoder<float>& encoder, nb::handle ids_given, nb::handle lengths_given) {
  const ArrayArgument ids = int64_argument("ids", ids_given);
  const ArrayArgument lengths = int64_argument("lengths", lengths_given);
  check_shape(kWho, "ids", ids.shape(), {{"batch"}, {"seq"}});
  const Index batch = ids.shape()[0], seq = ids.shape()[1];
  const std::vector<Index> counts = take_lengths(lengths, batch);

  const EncoderConfig& config = encoder.config();
  const Shape<4> hidden_shape{config.layers, batch, seq, config.hidden};
  const Shape<5> weights_shape{config.layers, batch, config.heads, seq, seq};
  MemoryRequest request;
  request.add("hidden", hidden_shape, sizeof(float));
  request.add("weights", weights_shape, sizeof(float));
  request.check(kWho);
  const nb::object hidden = new_array(hidden_shape, DType::kFloat32);
  const nb::object weights = new_array(weights_shape, DType::kFloat32);

  std::vector<LayerTrace<float>> traces(static_cast<std::size_t>(config.layers));
  for (Index layer = 0; layer < config.layers; ++layer) {
    traces[layer].layer = layer;
    traces[layer].hidden = view_of<float, 4>(hidden, hidden_shape).select(0, layer);
    traces[layer].attention.weights = view_of<float, 5>(weights, weights_shape).select(0, layer);
  }
  const EncoderInputs inputs{ids.view<const std::int64_t, 2>(), counts, {}};
  run_interruptible(operations(config, batch, seq),
                    [&](const Execution& execution) { encoder.forward(inputs, traces, execution); });
  return nb::make_tuple(hidden, weights);
}

}  // namespace

void bind_encoder(nb::module_& module) {
  nb::class_<Encoder<float>>(module, "Encoder")
      .def("__init__",
           [](Encoder<float>* self, const std::string& directory) {
             nb::gil_scoped_release release;
             new (self) Encoder<float>(load_encoder(directory));
           })
      .def("run", run, nb::arg().none(), nb::arg().none());
}

}  // namespace headwise::python
