// SPDX-License-Identifier: Apache-2.0
// Any bytes as a layer file: they are refused with a FileError, or its facts and sizes can be told.
#ifndef HEADWISE_TESTS_FUZZ_LAYER_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_LAYER_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "headwise/checkpoints/layer_layout.h"
#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "tests/fuzz/memory_file.h"

namespace headwise::layer_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const MemoryFile bytes(data, size);
  try {
    const SafetensorsFile file(bytes.path());
    const LayerFacts facts = facts_from_metadata(file.path(), file.metadata());
    const LayerLayout layout = read_layer_layout(file);
    if (layout.d_in < 0 || layout.d_out < 0 || layout.query_rows < 0 || layout.key_rows < 0) abort();
    if (facts.kind && layer_kind_name(*facts.kind).empty()) abort();
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::layer_fuzz

#endif  // HEADWISE_TESTS_FUZZ_LAYER_FUZZ_H_
