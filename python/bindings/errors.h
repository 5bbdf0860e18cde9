// SPDX-License-Identifier: Apache-2.0
// Errors that only the Python face knows, and how every C++ error becomes a Python one.
#ifndef HEADWISE_PYTHON_BINDINGS_ERRORS_H_
#define HEADWISE_PYTHON_BINDINGS_ERRORS_H_

#include <new>
#include <string>

namespace headwise::python {

// A request for more memory than is free. MemoryError.
class TooLargeError : public std::bad_alloc {
 public:
  explicit TooLargeError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

void register_errors();

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_ERRORS_H_
