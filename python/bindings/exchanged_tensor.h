// SPDX-License-Identifier: Apache-2.0
// A tensor of torch read through the C table that its class carries (DLPack's exchange interface, version 1, torch 2.10
// and later): address, type and strides in some ten nanoseconds, without a call of Python's.
// Layout: https://dmlc.github.io/dlpack/latest/c_api.html
#ifndef HEADWISE_PYTHON_BINDINGS_EXCHANGED_TENSOR_H_
#define HEADWISE_PYTHON_BINDINGS_EXCHANGED_TENSOR_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "headwise/tensor/dtype.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise::python {

namespace nb = nanobind;

// Borrows: the tensor must outlive it, under the GIL until its sizes have been read.
class ExchangedTensor {
 public:
  // False, with no Python error set, unless the object is exactly a torch.Tensor or torch.nn.Parameter with its numbers
  // in CPU memory as they are, and torch carries the table.
  bool read(nb::handle object);
  // The same for one that has just been made for the call: the numbers in it do not matter yet.
  bool read_new(nb::handle object);

  DType dtype() const { return dtype_; }
  std::span<const std::int64_t> shape() const { return shape_; }
  bool has_shape(std::initializer_list<Index> shape) const;
  bool contiguous() const;

  // T and Rank must be the tensor's.
  template <class T, int Rank>
  TensorView<T, Rank> view() const {
    Shape<Rank> shape{}, strides{};
    for (int axis = 0; axis < Rank; ++axis) {
      shape[axis] = shape_[axis];
      strides[axis] = strides_[axis];
    }
    return {static_cast<T*>(data_), shape, strides};
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kFloat32;
  std::span<const std::int64_t> shape_, strides_;
};

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_EXCHANGED_TENSOR_H_
