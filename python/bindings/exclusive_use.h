// SPDX-License-Identifier: Apache-2.0
// Keeps a second thread out of an object while a call that changes it runs without the GIL.
#ifndef HEADWISE_PYTHON_BINDINGS_EXCLUSIVE_USE_H_
#define HEADWISE_PYTHON_BINDINGS_EXCLUSIVE_USE_H_

#include <string>

#include "headwise/tensor/errors.h"

namespace headwise::python {

// Marks an object as being inside such a call. Taken and released under the GIL.
class ExclusiveUse {
 public:
  // Throws StateError "<who>: another thread is inside <what>" when it is marked already.
  ExclusiveUse(bool& in_use, const std::string& who, const std::string& what) : in_use_(in_use) {
    if (in_use_) throw StateError(who + ": another thread is inside " + what);
    in_use_ = true;
  }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;
  ~ExclusiveUse() { in_use_ = false; }

 private:
  bool& in_use_;
};

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_EXCLUSIVE_USE_H_
