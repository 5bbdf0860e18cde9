// SPDX-License-Identifier: Apache-2.0
// Any bytes as an encoder's config.json: they are refused with a FileError, or the sizes fit together.
#ifndef HEADWISE_TESTS_FUZZ_CONFIG_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_CONFIG_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "headwise/checkpoints/load_encoder.h"
#include "headwise/io/file_error.h"
#include "tests/fuzz/memory_file.h"

namespace headwise::config_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    const EncoderConfig config = read_encoder_config(file.path());
    if (config.layers < 1 || config.heads < 1 || config.hidden % config.heads != 0) abort();
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::config_fuzz

#endif  // HEADWISE_TESTS_FUZZ_CONFIG_FUZZ_H_
