// SPDX-License-Identifier: Apache-2.0
// Runs a call of the library without the GIL, in such a way that Ctrl-C stops it.
#ifndef HEADWISE_PYTHON_BINDINGS_INTERRUPTIBLE_H_
#define HEADWISE_PYTHON_BINDINGS_INTERRUPTIBLE_H_

#include <functional>

#include "headwise/runtime/execution.h"

namespace headwise::python {

// Calls work once, with the GIL released. When a Python signal handler raises meanwhile, the cancel flag goes up and
// the handler's exception is thrown. `operations` is a rough count of multiply-adds: a call of Python's main thread
// that may take long runs on a thread kept for that, while the main thread looks after signals. Called under the GIL.
void run_interruptible(double operations, const std::function<void(const Execution&)>& work);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_INTERRUPTIBLE_H_
