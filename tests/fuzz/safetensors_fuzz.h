// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: they are refused with a FileError, or every byte of every tensor can be read.
#ifndef HEADWISE_TESTS_FUZZ_SAFETENSORS_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_SAFETENSORS_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "headwise/io/file_error.h"
#include "headwise/io/safetensors_header.h"

namespace headwise::safetensors_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const SafetensorsHeader header = parse_safetensors_header("fuzz", bytes);
    std::uint64_t used = 0;
    for (const SafetensorsEntry& entry : header.entries) {
      const auto tensor = bytes.subspan(header.data_begin + entry.begin, entry.end - entry.begin);
      used += tensor.size();
      if (!tensor.empty() && (tensor.front() == std::byte{255}) != (data[header.data_begin + entry.begin] == 255))
        abort();
      if (header.find(entry.name) != &entry) abort();
    }
    if (used != size - header.data_begin) abort();
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::safetensors_fuzz

#endif  // HEADWISE_TESTS_FUZZ_SAFETENSORS_FUZZ_H_
