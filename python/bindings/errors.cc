// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/errors.h"

#include <nanobind/nanobind.h>

#include "headwise/io/file_error.h"
#include "headwise/runtime/execution.h"
#include "headwise/tensor/errors.h"

namespace headwise::python {

// ShapeError and ArgumentError are std::invalid_argument, which nanobind makes a ValueError itself.
void register_errors() {
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const DTypeError& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const StateError& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    } catch (const FileNotFound& error) {
      PyErr_SetString(PyExc_FileNotFoundError, error.what());
    } catch (const FileError& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const Cancelled&) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
}

}  // namespace headwise::python
