// SPDX-License-Identifier: Apache-2.0
// Any bytes as an npz file: they are refused with a FileError, or each array is refused or has what its header says.
#ifndef HEADWISE_TESTS_FUZZ_NPZ_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_NPZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "headwise/io/file_error.h"
#include "headwise/io/npz_archive.h"

namespace headwise::npz_fuzz {

inline void fuzz_array(const NpzArchive& archive, const std::string& name) {
  try {
    const NpyHeader header = archive.header(name);
    const NpzArray array = archive.array(name);
    const NamedTensor& tensor = array.tensor();
    if (tensor.name != name || tensor.dtype != header.dtype || tensor.shape != header.shape) abort();
    unsigned total = 0;
    for (const std::byte value : std::span(tensor.data, tensor.bytes())) total += std::to_integer<unsigned>(value);
    if (total > 255 * tensor.bytes()) abort();
  } catch (const FileError&) {
    return;
  }
}

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  try {
    const NpzArchive archive("fuzz", {reinterpret_cast<const std::byte*>(data), size});
    for (const std::string& name : archive.names()) {
      if (!archive.contains(name)) abort();
      fuzz_array(archive, name);
    }
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::npz_fuzz

#endif  // HEADWISE_TESTS_FUZZ_NPZ_FUZZ_H_
