// SPDX-License-Identifier: Apache-2.0
// The npy format without a file around it: for .npy files and the members of .npz files. Not installed.
#ifndef HEADWISE_IO_NPY_FORMAT_H_
#define HEADWISE_IO_NPY_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "headwise/io/npy.h"

namespace headwise {

// No header reaches farther: magic, version, length, and the longest text that is read.
inline constexpr std::size_t kMaxNpyStart = 12 + NpyHeader::kMaxBytes;

// As parse_npy_header, of an array of `total_bytes` whose first ones are here: all of them, or at least kMaxNpyStart.
NpyHeader parse_npy_start(std::string_view path, std::span<const std::byte> start, std::uint64_t total_bytes);

// What stands before the elements: version 1.0, C order, padded to 64 bytes. Throws DTypeError "<who>: numpy has no
// name for bfloat16".
std::string npy_start_of(std::string_view who, const NamedTensor& tensor);

// Owned memory that is not set to zero first.
using NpyBlock = std::unique_ptr<std::byte[]>;

// The elements of an array in Fortran order, put in C order; null where the two are the same.
NpyBlock npy_in_c_order(const NpyHeader& header, std::span<const std::byte> data);

}  // namespace headwise

#endif  // HEADWISE_IO_NPY_FORMAT_H_
