// SPDX-License-Identifier: Apache-2.0
// A numpy array, or a tensor of torch, as a caller gave it: borrowed, checked, never cast and never copied.
#ifndef HEADWISE_PYTHON_BINDINGS_ARRAY_ARGUMENT_H_
#define HEADWISE_PYTHON_BINDINGS_ARRAY_ARGUMENT_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/dtype.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise::python {

namespace nb = nanobind;

// An array of numpy, of whatever element type; a masked one counts too.
bool is_numpy_array(nb::handle object);

// "float32" for a type numpy knows; the type's own name ("bfloat16", ">f4") otherwise.
std::string dtype_text(nb::handle array);

// "list", "numpy.ma.MaskedArray": the type of an object as an error names it.
std::string type_text(nb::handle object);

// Whose objects a call takes. Of torch, the Python side has made sure that they are strided tensors on the CPU.
enum class ArrayLibrary : bool { kNumpy, kTorch };

// bfloat16 is known by its name: the package ml_dtypes is not needed here.
// Holds the array's buffer as long as it lives. Created and destroyed under the GIL; its views may be used without it.
class ArrayArgument {
 public:
  ArrayArgument() = default;  // not given
  // None is "not given". Throws DTypeError when the object is no numpy array; an element type that has no DType is
  // noticed by the first check of the type.
  ArrayArgument(std::string_view who, std::string_view name, nb::handle object,
                ArrayLibrary library = ArrayLibrary::kNumpy);
  ~ArrayArgument();
  ArrayArgument(ArrayArgument&& other) noexcept { *this = std::move(other); }
  ArrayArgument& operator=(ArrayArgument&& other) noexcept;

  bool given() const { return object_.is_valid(); }
  nb::handle object() const { return object_; }
  const std::string& name() const { return name_; }
  std::optional<DType> dtype() const { return dtype_; }
  std::span<const Index> shape() const { return shape_; }
  std::span<const Index> strides() const { return strides_; }  // in elements
  int rank() const { return static_cast<int>(shape_.size()); }
  Index elements() const;
  bool writable() const { return buffer_.readonly == 0; }
  const void* data() const;

  // Throws DTypeError "<who>: <name> must be <expected>, got <type>".
  [[noreturn]] void refuse_dtype(std::string_view expected) const;

  // The same elements in memory of their own, dense in C order. Axes of stride 0 are kept at length 1: for masks and
  // biases, where such an axis means the same.
  ArrayArgument copy() const;

  // The array's axes, with axes of length 1 in front up to Rank. T must be the array's type.
  template <class T, int Rank>
  TensorView<T, Rank> view() const {
    if (!given()) return {};
    Shape<Rank> shape, strides{};
    shape.fill(1);
    for (int axis = 0, to = Rank - rank(); axis < rank(); ++axis, ++to) {
      shape[to] = shape_[axis];
      strides[to] = strides_[axis];
    }
    return {static_cast<T*>(const_cast<void*>(data())), shape, strides};
  }

 private:
  void take_buffer();
  void take_strides();
  void take_tensor();

  std::string who_, name_;
  nb::object object_;
  Py_buffer buffer_{};
  bool holds_buffer_ = false;
  std::optional<DType> dtype_;
  const void* address_ = nullptr;
  std::vector<Index> shape_, strides_;
};

// q of attention: throws unless the type is float32, float64, float16 or bfloat16.
void require_float(const ArrayArgument& array);

// Throws DTypeError "<who>: k must be float32 like q, got float64".
void require_dtype(const ArrayArgument& array, DType dtype, std::string_view like);
void require_same_dtype(const ArrayArgument& array, const ArrayArgument& like);

// The type of sums and statistics over elements of that type: float64 for float64, else float32.
constexpr DType accumulated_dtype(DType dtype) { return dtype == DType::kFloat64 ? dtype : DType::kFloat32; }

// Throws DTypeError "<who>: sinks must be float32 beside bfloat16 q, got bfloat16".
void require_accumulated_dtype(const ArrayArgument& array, const ArrayArgument& like);

// Throws ArgumentError unless the array can be written, does not overlap itself, and shares no memory with the others.
void require_output(std::string_view who, const ArrayArgument& out, std::initializer_list<const ArrayArgument*> inputs);

// A new C-order array of numpy, its elements not set.
nb::object new_array(std::span<const Index> shape, DType dtype);
// The same, of another array's type: of bfloat16 there is none but through such an array.
nb::object new_array(std::span<const Index> shape, const ArrayArgument& like);

// A view of an array made by new_array. T and Rank must be those it was made with.
template <class T, int Rank>
TensorView<T, Rank> view_of(const nb::object& array, const Shape<Rank>& shape) {
  ArrayArgument argument("new_array", "array", array);
  return {static_cast<T*>(const_cast<void*>(argument.data())), shape};
}

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_ARRAY_ARGUMENT_H_
