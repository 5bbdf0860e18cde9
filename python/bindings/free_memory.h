// SPDX-License-Identifier: Apache-2.0
// Refuses a request for more memory than is free, before anything is computed.
#ifndef HEADWISE_PYTHON_BINDINGS_FREE_MEMORY_H_
#define HEADWISE_PYTHON_BINDINGS_FREE_MEMORY_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise::python {

// The arrays one call will make. Bytes are counted in double, which cannot overflow.
class MemoryRequest {
 public:
  void add(std::string name, std::span<const Index> shape, std::size_t item_bytes);
  // Throws TooLargeError "<who>: context, weights need 149.0 GiB of memory, 22.9 GiB are free".
  void check(std::string_view who) const;

 private:
  std::vector<std::string> names_;
  double bytes_ = 0;
};

// What the machine, the control groups and the address-space limit leave to this process; infinity where unknown.
double free_memory_bytes();

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_FREE_MEMORY_H_
