// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/scalar_argument.h"

#include <limits>
#include <string>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "python/bindings/array_argument.h"

namespace headwise::python {
namespace {

std::string prefix_of(ArgumentName argument) {
  return std::string(argument.who) + ": " + std::string(argument.name) + " must be ";
}

[[noreturn]] void refuse_type(ArgumentName argument, std::string_view expected, nb::handle got) {
  throw DTypeError(prefix_of(argument) + std::string(expected) + ", got " + type_text(got));
}

std::string text_of(nb::handle object) { return nb::repr(object).c_str(); }

// A Python int behind anything that counts as an integer; throws DTypeError for the rest.
nb::object index_of(ArgumentName argument, nb::handle object, std::string_view expected) {
  const bool integral = PyIndex_Check(object.ptr()) != 0 && !is_true_or_false(object);
  nb::object index;
  if (integral) index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    refuse_type(argument, expected, object);
  }
  return index;
}

}  // namespace

bool is_true_or_false(nb::handle object) {
  if (PyBool_Check(object.ptr()) != 0) return true;
  const std::string_view type(Py_TYPE(object.ptr())->tp_name);
  return type == "numpy.bool" || type == "numpy.bool_";
}

bool flag_argument(ArgumentName argument, nb::handle object) {
  if (!is_true_or_false(object)) refuse_type(argument, "True or False", object);
  return PyObject_IsTrue(object.ptr()) != 0;
}

double real_argument(ArgumentName argument, nb::handle object) {
  if (PyFloat_CheckExact(object.ptr()) != 0) return PyFloat_AS_DOUBLE(object.ptr());
  const PyNumberMethods* methods = Py_TYPE(object.ptr())->tp_as_number;
  const bool numeric = methods != nullptr && (methods->nb_float != nullptr || methods->nb_index != nullptr);
  if (!numeric || is_true_or_false(object) || is_numpy_array(object)) {
    refuse_type(argument, "a number", object);
  }
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse_type(argument, "a number", object);
  }
  return value;
}

Index integer_argument(ArgumentName argument, nb::handle object, Index low, Index high) {
  nb::object index = index_of(argument, object, "an integer");
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0 || value < low || value > high) {
    throw ArgumentError(prefix_of(argument) + "in " + std::to_string(low) + ".." + std::to_string(high) + ", got " +
                        text_of(index));
  }
  return value;
}

std::uint64_t seed_argument(ArgumentName argument, nb::handle object) {
  nb::object index = index_of(argument, object, "an integer");
  const unsigned long long value = PyLong_AsUnsignedLongLong(index.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw ArgumentError(prefix_of(argument) + "in 0..2**64-1, got " + text_of(index));
  }
  return value;
}

std::vector<Index> integers_argument(ArgumentName argument, nb::handle object) {
  std::vector<Index> values;
  if (is_numpy_array(object)) {
    const ArrayArgument array(argument.who, argument.name, object);
    check_shape(argument.who, argument.name, array.shape(), {{"batch"}});
    const bool integral = array.dtype() && *array.dtype() >= DType::kInt8 && *array.dtype() <= DType::kUint64;
    if (!integral) array.refuse_dtype("integers");
  } else if (PyList_Check(object.ptr()) == 0 && PyTuple_Check(object.ptr()) == 0) {
    refuse_type(argument, "an array of integers", object);
  }
  for (nb::handle entry : nb::iter(object)) {
    values.push_back(
        integer_argument(argument, entry, std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max()));
  }
  return values;
}

}  // namespace headwise::python
