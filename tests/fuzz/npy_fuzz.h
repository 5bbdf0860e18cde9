// SPDX-License-Identifier: Apache-2.0
// Any bytes as an npy file: they are refused with a FileError, or the header accounts for every byte.
#ifndef HEADWISE_TESTS_FUZZ_NPY_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_NPY_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "headwise/io/file_error.h"
#include "headwise/io/npy.h"

namespace headwise::npy_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  try {
    const NpyHeader header = parse_npy_header("fuzz", {reinterpret_cast<const std::byte*>(data), size});
    std::size_t bytes = dtype_bytes(header.dtype);
    for (const Index extent : header.shape) bytes *= static_cast<std::size_t>(extent);
    if (header.data_begin + bytes != size) abort();
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::npy_fuzz

#endif  // HEADWISE_TESTS_FUZZ_NPY_FUZZ_H_
