// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls. One program a reader, which the build names: HEADWISE_FUZZED_READER is npz_fuzz, ...
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return headwise::HEADWISE_FUZZED_READER::fuzz_one(data, size);
}
