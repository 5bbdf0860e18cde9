// SPDX-License-Identifier: Apache-2.0
// An attention layer as Python holds it: the C++ layer of either type, its mode, and what its backward needs.
#ifndef HEADWISE_PYTHON_BINDINGS_PYTHON_LAYER_H_
#define HEADWISE_PYTHON_BINDINGS_PYTHON_LAYER_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "headwise/checkpoints/layer_file.h"
#include "headwise/lens/diagnose.h"
#include "headwise/tensor/dtype.h"

namespace headwise::python {

namespace nb = nanobind;

// The arguments of a layer's call, as given.
struct LayerHandles {
  nb::handle x, keys_values, mask, bias, kv_lengths, query_offset, return_weights, stats;
};

class PythonLayer {
 public:
  PythonLayer() = default;
  PythonLayer(const PythonLayer&) = delete;
  PythonLayer& operator=(const PythonLayer&) = delete;
  virtual ~PythonLayer() = default;

  virtual DType dtype() const = 0;
  virtual const AttentionConfig& config() const = 0;
  virtual const AttentionSizes& sizes() const = 0;
  virtual std::uint64_t seed() const = 0;
  virtual Index parameter_count() const = 0;

  // x: (batch, seq_q, d_in) -> out: (batch, seq_q, d_out), alone or as (out, weights, stats). In training it draws a
  // new dropout mask and keeps what backward needs.
  virtual nb::object forward(const LayerHandles& given) = 0;
  // grad_out: (batch, seq_q, d_out) -> grad_x, or (grad_x, grad_keys_values) after a forward with keys_values. Once for
  // each forward in training; StateError otherwise.
  virtual nb::object backward(nb::handle grad_out) = 0;

  // x: (batch, seq, d_in); got: (batch, seq_q, d_out), float64.
  virtual Diagnosis diagnosis(nb::handle x, nb::handle got) const = 0;

  // Writable arrays on the layer's own storage, by state_dict name. They keep `owner`, the Python object of this,
  // alive.
  virtual nb::dict arrays(nb::handle owner, bool gradients) = 0;
  virtual void zero_grad() = 0;
  virtual void load(const nb::dict& tensors) = 0;
  virtual void save(const std::string& path) = 0;
  // The bytes of the file that save writes.
  virtual nb::bytes pack() = 0;

  // Conversions; ArgumentError from a layer that has none. The caller owns the result.
  virtual PythonLayer* fuse() const = 0;
  virtual PythonLayer* split() const = 0;
  virtual PythonLayer* head(Index index) const = 0;

  bool training = true;
  bool frozen = false;
  std::uint64_t training_forwards = 0;  // so far: which dropout mask the next one draws
};

// The caller owns the result.
PythonLayer* make_python_layer(AnyLayer<float> layer);
PythonLayer* make_python_layer(AnyLayer<double> layer);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_PYTHON_LAYER_H_
