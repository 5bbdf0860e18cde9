// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/array_argument.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise::python {
namespace {

// numpy's objects that every call needs, looked up once and kept for good.
struct Numpy {
  nb::handle array_type, masked_array_type, empty, shares_memory;
};

const Numpy& numpy() {
  static const Numpy names = [] {
    nb::module_ module = nb::module_::import_("numpy");
    const auto keep = [](nb::object object) { return object.release(); };
    return Numpy{keep(module.attr("ndarray")), keep(module.attr("ma").attr("MaskedArray")), keep(module.attr("empty")),
                 keep(module.attr("shares_memory"))};
  }();
  return names;
}

// Attribute names and element types of torch, looked up once and kept for good.
struct Torch {
  nb::handle dtype, data_ptr, shape, stride;
  std::vector<std::pair<PyObject*, DType>> types;

  std::optional<DType> dtype_of(nb::handle type) const {
    for (const auto& [object, known] : types) {
      if (object == type.ptr()) return known;
    }
    return std::nullopt;
  }
};

const Torch& torch() {
  static const Torch names = [] {
    nb::module_ module = nb::module_::import_("torch");
    const auto interned = [](const char* text) { return nb::handle(PyUnicode_InternFromString(text)); };
    Torch made{interned("dtype"), interned("data_ptr"), interned("shape"), interned("stride"), {}};
    for (DType type :
         {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64, DType::kBool, DType::kInt64}) {
      nb::object object = module.attr(std::string(dtype_name(type)).c_str());
      made.types.emplace_back(object.release().ptr(), type);
    }
    return made;
  }();
  return names;
}

std::vector<Index> indices_of(nb::handle tuple) {
  std::vector<Index> values(static_cast<std::size_t>(PyTuple_GET_SIZE(tuple.ptr())));
  for (std::size_t axis = 0; axis < values.size(); ++axis) {
    values[axis] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(axis)));
  }
  return values;
}

bool is_instance(nb::handle object, nb::handle type) {
  return PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(type.ptr())) != 0;
}

// The element type behind a format of the struct module; none for byte-swapped and composed ones.
std::optional<DType> dtype_of_format(std::string_view format, Py_ssize_t bytes) {
  if (!format.empty() && std::string_view("@=<").find(format[0]) != std::string_view::npos) format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  const auto sized = [bytes](DType one, DType two, DType four, DType eight) {
    return bytes == 1 ? one : bytes == 2 ? two : bytes == 4 ? four : eight;
  };
  if (format == "f") return DType::kFloat32;
  if (format == "d") return DType::kFloat64;
  if (format == "e") return DType::kFloat16;
  if (format == "?") return DType::kBool;
  if (std::string_view("bhilq").find(format[0]) != std::string_view::npos) {
    return sized(DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64);
  }
  if (std::string_view("BHILQ").find(format[0]) != std::string_view::npos) {
    return sized(DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64);
  }
  return std::nullopt;
}

// ml_dtypes' type, seen without that package: it registers itself with numpy under this name.
bool is_bfloat16(nb::handle array) {
  const nb::object dtype = array.attr("dtype");
  return nb::cast<std::string>(dtype.attr("name")) == "bfloat16" && nb::cast<int>(dtype.attr("itemsize")) == 2 &&
         nb::cast<bool>(dtype.attr("isnative"));
}

// The first and one past the last byte that a non-empty array touches.
std::pair<std::intptr_t, std::intptr_t> extent(const ArrayArgument& array) {
  const auto item = static_cast<std::intptr_t>(dtype_bytes(*array.dtype()));
  std::intptr_t begin = reinterpret_cast<std::intptr_t>(array.data()), end = begin + item;
  for (int axis = 0; axis < array.rank(); ++axis) {
    const std::intptr_t reach = (array.shape()[axis] - 1) * array.strides()[axis] * item;
    (reach < 0 ? begin : end) += reach;
  }
  return {begin, end};
}

bool overlap(const ArrayArgument& a, const ArrayArgument& b) {
  if (a.elements() == 0 || b.elements() == 0) return false;
  const auto [a_begin, a_end] = extent(a);
  const auto [b_begin, b_end] = extent(b);
  if (a_end <= b_begin || b_end <= a_begin) return false;
  // The bounds meet: numpy decides exactly, and what is too hard for it counts as overlapping.
  nb::object shares =
      nb::steal(PyObject_CallFunction(numpy().shares_memory.ptr(), "OOi", a.object().ptr(), b.object().ptr(), 100000));
  if (!shares.is_valid()) {
    PyErr_Clear();
    return true;
  }
  return PyObject_IsTrue(shares.ptr()) != 0;
}

bool overlaps_itself(const ArrayArgument& array) {
  std::vector<std::pair<Index, Index>> axes;  // (stride, length), ascending
  for (int axis = 0; axis < array.rank(); ++axis) {
    if (array.shape()[axis] > 1) axes.emplace_back(std::abs(array.strides()[axis]), array.shape()[axis]);
  }
  std::sort(axes.begin(), axes.end());
  Index reach = 0;
  for (const auto& [stride, length] : axes) {
    if (stride <= reach) return true;
    reach += stride * (length - 1);
  }
  return false;
}

nb::object sizes_of(std::span<const Index> shape) {
  nb::object sizes = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    PyTuple_SET_ITEM(sizes.ptr(), static_cast<Py_ssize_t>(axis), PyLong_FromLongLong(shape[axis]));
  }
  return sizes;
}

}  // namespace

bool is_numpy_array(nb::handle object) { return is_instance(object, numpy().array_type); }

std::string type_text(nb::handle object) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  nb::object module = nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  if (!module.is_valid()) PyErr_Clear();
  const std::string name(std::string_view(type->tp_name).substr(std::string_view(type->tp_name).rfind('.') + 1));
  if (!module.is_valid() || !PyUnicode_Check(module.ptr())) return name;
  const std::string prefix = nb::cast<std::string>(module);
  return prefix == "builtins" ? name : prefix + "." + name;
}

std::string dtype_text(nb::handle array) {
  nb::object dtype = array.attr("dtype");
  if (!nb::hasattr(dtype, "isnative")) return nb::cast<std::string>(nb::str(dtype));  // torch's
  const bool native = nb::cast<bool>(dtype.attr("isnative"));
  return nb::cast<std::string>(nb::str(native ? dtype.attr("name") : dtype.attr("str")));
}

ArrayArgument::ArrayArgument(std::string_view who, std::string_view name, nb::handle object, ArrayLibrary library)
    : who_(who), name_(name) {
  if (object.is_none()) return;
  if (library == ArrayLibrary::kTorch) {
    object_ = nb::borrow(object);
    take_tensor();
    return;
  }
  if (!is_numpy_array(object) || is_instance(object, numpy().masked_array_type)) {
    throw DTypeError(who_ + ": " + name_ + " must be a numpy array, got " + type_text(object));
  }
  object_ = nb::borrow(object);
  take_buffer();
}

void ArrayArgument::take_buffer() {
  if (PyObject_GetBuffer(object_.ptr(), &buffer_, PyBUF_STRIDED_RO | PyBUF_FORMAT) == 0) {
    dtype_ = dtype_of_format(buffer_.format == nullptr ? "B" : buffer_.format, buffer_.itemsize);
  } else {
    PyErr_Clear();                      // a type that the buffer protocol has no letter for
    if (!is_bfloat16(object_)) return;  // the first check of the type tells
    if (PyObject_GetBuffer(object_.ptr(), &buffer_, PyBUF_STRIDED_RO) != 0) throw nb::python_error();
    dtype_ = DType::kBFloat16;
  }
  holds_buffer_ = true;
  address_ = buffer_.buf;
  shape_.assign(buffer_.shape, buffer_.shape + buffer_.ndim);
  if (dtype_) take_strides();
}

ArrayArgument::~ArrayArgument() {
  if (holds_buffer_) PyBuffer_Release(&buffer_);
}

ArrayArgument& ArrayArgument::operator=(ArrayArgument&& other) noexcept {
  std::swap(who_, other.who_);
  std::swap(name_, other.name_);
  std::swap(object_, other.object_);
  std::swap(buffer_, other.buffer_);
  std::swap(holds_buffer_, other.holds_buffer_);
  std::swap(dtype_, other.dtype_);
  std::swap(address_, other.address_);
  std::swap(shape_, other.shape_);
  std::swap(strides_, other.strides_);
  return *this;
}

void ArrayArgument::take_tensor() {
  const Torch& names = torch();
  dtype_ = names.dtype_of(nb::getattr(object_, names.dtype));
  address_ = reinterpret_cast<const void*>(nb::cast<std::uintptr_t>(object_.attr(names.data_ptr)()));
  shape_ = indices_of(nb::getattr(object_, names.shape));
  strides_ = indices_of(object_.attr(names.stride)());
}

// A field of a record array may lie between the elements; such a view cannot be described in whole elements.
void ArrayArgument::take_strides() {
  const auto item = static_cast<Index>(dtype_bytes(*dtype_));
  bool whole = reinterpret_cast<std::uintptr_t>(buffer_.buf) % static_cast<std::uintptr_t>(item) == 0;
  for (int axis = 0; axis < buffer_.ndim; ++axis) {
    const Index stride = buffer_.shape[axis] > 1 ? buffer_.strides[axis] : 0;
    whole = whole && stride % item == 0;
    strides_.push_back(stride / item);
  }
  if (whole || elements() == 0) return;
  throw ArgumentError(who_ + ": " + name_ + " must be aligned (address and strides in multiples of its " +
                      std::to_string(item) + " bytes an element), got an unaligned view");
}

Index ArrayArgument::elements() const {
  Index count = 1;
  for (Index extent : shape_) count *= extent;
  return count;
}

const void* ArrayArgument::data() const {
  static const double kNothing = 0;  // an empty array still has an address: a null view would mean "not given"
  return address_ != nullptr ? address_ : &kNothing;
}

ArrayArgument ArrayArgument::copy() const {
  nb::list index;
  for (int axis = 0; axis < rank(); ++axis) {
    const bool broadcast = strides_[axis] == 0 && shape_[axis] > 1;
    index.append(broadcast ? nb::slice(nb::int_(0), nb::int_(1), nb::none())
                           : nb::slice(nb::none(), nb::none(), nb::none()));
  }
  return ArrayArgument(who_, name_, object_[nb::tuple(index)].attr("copy")("C"));
}

void ArrayArgument::refuse_dtype(std::string_view expected) const {
  throw DTypeError(who_ + ": " + name_ + " must be " + std::string(expected) + ", got " + dtype_text(object_));
}

void require_float(const ArrayArgument& array) {
  if (array.dtype() == DType::kFloat32 || array.dtype() == DType::kFloat64) return;
  if (array.dtype() == DType::kFloat16 || array.dtype() == DType::kBFloat16) return;
  array.refuse_dtype("float32, float64, float16 or bfloat16");
}

void require_dtype(const ArrayArgument& array, DType dtype, std::string_view like) {
  if (array.dtype() == dtype) return;
  array.refuse_dtype(std::string(dtype_name(dtype)) + " like " + std::string(like));
}

void require_same_dtype(const ArrayArgument& array, const ArrayArgument& like) {
  if (array.given()) require_dtype(array, *like.dtype(), like.name());
}

void require_accumulated_dtype(const ArrayArgument& array, const ArrayArgument& like) {
  if (!array.given()) return;
  const DType wanted = accumulated_dtype(*like.dtype());
  if (wanted == *like.dtype()) return require_dtype(array, wanted, like.name());
  if (array.dtype() == wanted) return;
  array.refuse_dtype(std::string(dtype_name(wanted)) + " beside " + std::string(dtype_name(*like.dtype())) + " " +
                     like.name());
}

void require_output(std::string_view who, const ArrayArgument& out,
                    std::initializer_list<const ArrayArgument*> inputs) {
  const std::string prefix = std::string(who) + ": " + out.name() + " must ";
  if (!out.writable()) throw ArgumentError(prefix + "be writable, got a read-only array");
  if (overlaps_itself(out)) throw ArgumentError(prefix + "not overlap itself, got strides that repeat an element");
  for (const ArrayArgument* input : inputs) {
    if (input->given() && overlap(out, *input)) {
      throw ArgumentError(prefix + "not overlap an input, got memory of " + input->name());
    }
  }
}

nb::object new_array(std::span<const Index> shape, DType dtype) {
  return numpy().empty(sizes_of(shape), std::string(dtype_name(dtype)).c_str());
}

nb::object new_array(std::span<const Index> shape, const ArrayArgument& like) {
  if (like.dtype() != DType::kBFloat16) return new_array(shape, *like.dtype());
  return numpy().empty(sizes_of(shape), like.object().attr("dtype"));
}

}  // namespace headwise::python
