// SPDX-License-Identifier: Apache-2.0
// numpy's .npy files: one array each.
#ifndef HEADWISE_IO_NPY_H_
#define HEADWISE_IO_NPY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/mapped_file.h"
#include "headwise/tensor/named_tensor.h"

namespace headwise {

struct NpyHeader {
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 16;
  static constexpr std::size_t kMaxRank = 16;

  DType dtype = DType::kFloat32;
  bool fortran_order = false;
  std::vector<Index> shape;
  std::size_t data_begin = 0;  // where the elements start in the file
};

// Reads versions 1 to 3 and checks the header against the file's length. Throws FileError: big-endian, structured, text
// and complex arrays are refused by name.
NpyHeader parse_npy_header(std::string_view path, std::span<const std::byte> file);

// An open array. The tensor borrows from it and is named after the file's stem.
class NpyFile {
 public:
  // Throws FileNotFound, or FileError naming the first fault and its byte.
  explicit NpyFile(std::string path);

  const std::string& path() const { return file_.path(); }
  // In C order: the file's own memory, or a copy of it when the file is in Fortran order.
  const NamedTensor& tensor() const { return tensor_; }

 private:
  MappedFile file_;
  std::unique_ptr<std::byte[]> c_order_;  // null where the file lies so
  NamedTensor tensor_;
};

// Writes version 1.0 in C order, as numpy.save does. Throws DTypeError for bfloat16, which numpy has no name for, and
// as OutputFile does.
void write_npy(const std::string& path, const NamedTensor& tensor);

}  // namespace headwise

#endif  // HEADWISE_IO_NPY_H_
