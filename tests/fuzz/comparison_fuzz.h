// SPDX-License-Identifier: Apache-2.0
// Any bytes as the comparison.json of `headwise train`: they are refused with a FileError, or every run can be begun.
#ifndef HEADWISE_TESTS_FUZZ_COMPARISON_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_COMPARISON_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "headwise/checkpoints/comparison_file.h"
#include "headwise/io/file_error.h"
#include "tests/fuzz/memory_file.h"

namespace headwise::comparison_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    const TrainingComparison comparison = load_comparison(file.path());
    if (comparison.heads.empty() || comparison.seeds < 1) abort();
    for (const Index heads : comparison.heads) {
      if (comparison.decoder.hidden % heads != 0) abort();
    }
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::comparison_fuzz

#endif  // HEADWISE_TESTS_FUZZ_COMPARISON_FUZZ_H_
