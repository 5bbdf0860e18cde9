// SPDX-License-Identifier: Apache-2.0
// What a safetensors file says about itself, with every rule of the format checked.
#ifndef HEADWISE_IO_SAFETENSORS_HEADER_H_
#define HEADWISE_IO_SAFETENSORS_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/dtype.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

// An element type of the format. Some have no DType here (F8_E4M3): such tensors can be listed, not read.
struct SafetensorsType {
  std::string_view name;  // "F32"
  unsigned bits = 0;
  std::optional<DType> dtype;
};

std::span<const SafetensorsType> safetensors_types();

struct SafetensorsEntry {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<Index> shape;
  std::uint64_t begin = 0, end = 0;  // bytes within the data
  std::uint64_t declared_at = 0;     // where its name ends in the file, for messages
};

struct SafetensorsHeader {
  // The format's own limit on the header.
  static constexpr std::uint64_t kMaxBytes = 100'000'000;
  // Limits of this reader: what a hostile header may cost in memory, and axes of one tensor.
  static constexpr std::size_t kMaxMemory = std::size_t{24} << 20;
  static constexpr std::size_t kMaxRank = 16;

  std::vector<SafetensorsEntry> entries;  // as the header lists them
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // where the data starts in the file

  const SafetensorsEntry* find(std::string_view name) const;

  std::vector<std::uint32_t> by_name;  // entry numbers in the order of their names
};

// Reads the header at the start of a whole file and checks it against the file's length. Throws FileError at the first
// fault; `path` is for its message. Memory: kMaxMemory and a few strings, whatever the header says.
SafetensorsHeader parse_safetensors_header(std::string_view path, std::span<const std::byte> file);

}  // namespace headwise

#endif  // HEADWISE_IO_SAFETENSORS_HEADER_H_
