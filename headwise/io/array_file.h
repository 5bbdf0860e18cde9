// SPDX-License-Identifier: Apache-2.0
// Named arrays in whichever of the three formats a file's name ends in: .npy, .npz, .safetensors.
#ifndef HEADWISE_IO_ARRAY_FILE_H_
#define HEADWISE_IO_ARRAY_FILE_H_

#include <list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headwise/io/npy.h"
#include "headwise/io/npz.h"
#include "headwise/io/safetensors.h"
#include "headwise/tensor/named_tensor.h"

namespace headwise {

struct ArrayFacts {
  DType dtype = DType::kFloat32;
  std::vector<Index> shape;
};

class ArrayFile {
 public:
  // Throws FileError for another ending, and as the format's reader does.
  explicit ArrayFile(const std::string& path);

  const std::string& path() const { return path_; }
  // In the file's order. The array of an npy file is named after the file.
  std::vector<std::string> names() const;

  // Both throw FileError when there is no such array or it cannot be read; facts() unpacks no more than it must.
  ArrayFacts facts(std::string_view name) const;
  // Borrows from this object.
  NamedTensor array(std::string_view name);

 private:
  std::string path_;
  std::variant<NpyFile, NpzFile, SafetensorsFile> file_;
  std::list<NpzArray> unpacked_;
};

// Whether a path ends in one of the three; the text names them: ".npy, .npz or .safetensors".
bool is_array_path(std::string_view path);
inline constexpr std::string_view kArrayEndings = ".npy, .npz or .safetensors";
// Whether the format of that ending holds any number of arrays; an npy file holds one.
bool holds_many_arrays(std::string_view path);

// Writes a whole file in the format that its name ends in. Throws ArgumentError for another ending and for an npy file
// of other than one array, and as the format's writer does.
void write_arrays(const std::string& path, std::span<const NamedTensor> arrays);

}  // namespace headwise

#endif  // HEADWISE_IO_ARRAY_FILE_H_
