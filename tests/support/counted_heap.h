// SPDX-License-Identifier: Apache-2.0
// What operator new hands out in a program that holds counted_heap_test.cc: counted, and refused on demand.
#ifndef HEADWISE_TESTS_SUPPORT_COUNTED_HEAP_H_
#define HEADWISE_TESTS_SUPPORT_COUNTED_HEAP_H_

#include <cstdint>

namespace headwise::testing {

// Blocks and bytes that are not freed yet, of all threads.
std::int64_t live_blocks();
std::int64_t live_bytes();
// The most bytes since the last restart_peak().
std::int64_t peak_bytes();
void restart_peak();

// While one lives, the allocation number `first` (from 0) and the `count - 1` after it throw std::bad_alloc, on
// whatever thread. seen(): how many were asked for.
class RefusedAllocations {
 public:
  RefusedAllocations(std::int64_t first, std::int64_t count);
  RefusedAllocations(const RefusedAllocations&) = delete;
  RefusedAllocations& operator=(const RefusedAllocations&) = delete;
  ~RefusedAllocations();
  static std::int64_t seen();
};

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_COUNTED_HEAP_H_
