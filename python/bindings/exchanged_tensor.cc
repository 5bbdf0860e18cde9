// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/exchanged_tensor.h"

#include <algorithm>
#include <optional>

namespace headwise::python {
namespace {

struct Version {
  std::uint32_t major, minor;
};

// DLTensor.
struct Described {
  void* data;
  std::int32_t device_type, device_id, ndim;
  std::uint8_t type_code, type_bits;
  std::uint16_t type_lanes;
  const std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};

// DLPackExchangeAPI, the functions that are not called here as plain addresses.
struct Table {
  Version version;
  void* previous;
  void *allocate, *export_owned, *import_owned;
  int (*describe)(void* object, Described* out);
  void* current_stream;
};

constexpr std::int32_t kCpu = 1;
constexpr std::uint8_t kFloatCode = 2, kBfloatCode = 4;

struct Torch {
  PyTypeObject *tensor, *parameter;
  PyObject* is_neg;
  const Table* table;  // null: this torch has none
};

const Table* table_of(nb::handle tensor_type) {
  nb::object capsule = nb::getattr(tensor_type, "__dlpack_c_exchange_api__", nb::none());
  if (capsule.is_none()) return nullptr;
  const auto* table = static_cast<const Table*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (table == nullptr) PyErr_Clear();
  return table != nullptr && table->version.major == 1 ? table : nullptr;
}

const Torch& torch() {
  static const Torch found = [] {
    nb::object tensor = nb::module_::import_("torch").attr("Tensor");
    nb::object parameter = nb::module_::import_("torch.nn").attr("Parameter");
    const Table* table = table_of(tensor);
    return Torch{reinterpret_cast<PyTypeObject*>(tensor.release().ptr()),
                 reinterpret_cast<PyTypeObject*>(parameter.release().ptr()), PyUnicode_InternFromString("is_neg"),
                 table};
  }();
  return found;
}

std::optional<DType> dtype_of(const Described& tensor) {
  if (tensor.type_lanes != 1) return std::nullopt;
  if (tensor.type_code == kBfloatCode && tensor.type_bits == 16) return DType::kBFloat16;
  if (tensor.type_code != kFloatCode) return std::nullopt;
  if (tensor.type_bits == 32) return DType::kFloat32;
  if (tensor.type_bits == 64) return DType::kFloat64;
  if (tensor.type_bits == 16) return DType::kFloat16;
  return std::nullopt;
}

// torch keeps some negations for later: the numbers in memory are then not those of the tensor.
bool is_negated_later(PyObject* object) {
  nb::object answer = nb::steal(PyObject_CallMethodNoArgs(object, torch().is_neg));
  if (!answer.is_valid()) PyErr_Clear();
  return answer.ptr() != Py_False;
}

}  // namespace

bool ExchangedTensor::read(nb::handle object) { return read_new(object) && !is_negated_later(object.ptr()); }

bool ExchangedTensor::read_new(nb::handle object) {
  const Torch& names = torch();
  PyTypeObject* type = Py_TYPE(object.ptr());
  if (names.table == nullptr || (type != names.tensor && type != names.parameter)) return false;
  Described tensor{};
  if (names.table->describe(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  const std::optional<DType> dtype = dtype_of(tensor);
  if (!dtype || tensor.device_type != kCpu || tensor.strides == nullptr) return false;
  // No memory: an empty tensor, or one of zeros that torch has not written yet.
  if (tensor.data == nullptr) return false;
  data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
  dtype_ = *dtype;
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  shape_ = {tensor.shape, rank};
  strides_ = {tensor.strides, rank};
  return true;
}

bool ExchangedTensor::has_shape(std::initializer_list<Index> shape) const {
  return std::equal(shape_.begin(), shape_.end(), shape.begin(), shape.end());
}

bool ExchangedTensor::contiguous() const {
  Index step = 1;
  for (std::size_t axis = shape_.size(); axis-- > 0; step *= shape_[axis]) {
    if (shape_[axis] != 1 && strides_[axis] != step) return false;
  }
  return true;
}

}  // namespace headwise::python
