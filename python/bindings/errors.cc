// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/errors.h"

#include <nanobind/nanobind.h>

#include "headwise/io/file_error.h"
#include "headwise/runtime/execution.h"
#include "headwise/tensor/errors.h"

namespace headwise::python {

namespace {

// OSError(number, reason, path), of which Python makes the subclass: "[Errno 2] no such file: 'x.safetensors'".
void raise_system_error(const SystemFileError& error) {
  const std::string reason = std::string(error.what()).substr(error.path().size() + 2);
  // The name of a file need not be UTF-8.
  PyObject* path = PyUnicode_DecodeFSDefaultAndSize(error.path().data(), static_cast<Py_ssize_t>(error.path().size()));
  PyObject* values = path == nullptr ? nullptr : Py_BuildValue("(isN)", error.code(), reason.c_str(), path);
  if (values != nullptr) PyErr_SetObject(PyExc_OSError, values);
  Py_XDECREF(values);
}

}  // namespace

// ShapeError and ArgumentError are std::invalid_argument, which nanobind makes a ValueError itself.
void register_errors() {
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const DTypeError& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const StateError& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    } catch (const SystemFileError& error) {
      raise_system_error(error);
    } catch (const FileError& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const Cancelled&) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
}

}  // namespace headwise::python
