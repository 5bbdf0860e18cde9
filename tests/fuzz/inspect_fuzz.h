// SPDX-License-Identifier: Apache-2.0
// Any bytes as a checkpoint: refused with a FileError, or its attention layers are told, each with sizes or a problem.
#ifndef HEADWISE_TESTS_FUZZ_INSPECT_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_INSPECT_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "headwise/checkpoints/inspect_attention.h"
#include "headwise/io/file_error.h"
#include "tests/fuzz/memory_file.h"

namespace headwise::inspect_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const MemoryFile bytes(data, size);
  try {
    for (const AttentionSummary& layer : inspect_attention(bytes.path()).layers) {
      if (layer.families.empty() || (layer.problem.empty() && layer.d_in.value_or(1) < 1)) abort();
    }
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::inspect_fuzz

#endif  // HEADWISE_TESTS_FUZZ_INSPECT_FUZZ_H_
