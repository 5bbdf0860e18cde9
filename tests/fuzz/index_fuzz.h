// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model.safetensors.index.json: they are refused with a FileError, or every file lies beside the index.
#ifndef HEADWISE_TESTS_FUZZ_INDEX_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_INDEX_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "headwise/io/file_error.h"
#include "headwise/io/safetensors_index.h"
#include "tests/fuzz/memory_file.h"

namespace headwise::index_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const MemoryFile index(data, size);
  try {
    for (const auto& [tensor, file] : read_safetensors_index(index.path())) {
      if (file.empty() || file == ".." || file.find('/') != std::string::npos) abort();
    }
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::index_fuzz

#endif  // HEADWISE_TESTS_FUZZ_INDEX_FUZZ_H_
