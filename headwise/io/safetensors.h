// SPDX-License-Identifier: Apache-2.0
// safetensors files: reading without a copy, writing whole files.
#ifndef HEADWISE_IO_SAFETENSORS_H_
#define HEADWISE_IO_SAFETENSORS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/mapped_file.h"
#include "headwise/io/safetensors_header.h"
#include "headwise/tensor/named_tensor.h"

namespace headwise {

// An open file. Tensors borrow its memory: they live as long as it does, and their data may be unaligned.
class SafetensorsFile {
 public:
  // Throws FileNotFound, or FileError naming the first fault and its byte.
  explicit SafetensorsFile(std::string path);
  // A file that lies in memory, which is borrowed; `name` is for messages. Throws FileError.
  SafetensorsFile(std::string name, std::span<const std::byte> bytes);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  bool contains(std::string_view name) const { return header_.find(name) != nullptr; }

  // Throws FileError when there is no such tensor, or its dtype is one that headwise lists but does not read (F8_E4M3).
  NamedTensor tensor(std::string_view name) const;
  // Every tensor, as the header lists them. Throws as tensor() does.
  std::vector<NamedTensor> tensors() const;

 private:
  NamedTensor tensor_of(const SafetensorsEntry& entry) const;

  std::optional<MappedFile> file_;  // none for a file in memory
  std::string path_;
  std::span<const std::byte> bytes_;
  SafetensorsHeader header_;
};

// Writes dense tensors, largest element type first and then by name, so that each is aligned and equal contents give
// equal files. Throws ArgumentError for a name that is empty, given twice or not UTF-8, and as OutputFile does.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// The bytes of the file that write_safetensors writes. Throws ArgumentError as that does.
std::string pack_safetensors(std::span<const NamedTensor> tensors,
                             const std::map<std::string, std::string>& metadata = {});

}  // namespace headwise

#endif  // HEADWISE_IO_SAFETENSORS_H_
