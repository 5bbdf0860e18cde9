// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/npy.h"

#include <cstring>
#include <utility>

#include "headwise/io/output_file.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

std::string stem_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".npy")) name.resize(name.size() - 4);
  return name;
}

// Walks the elements in C order and fetches each from its place in Fortran order, where the first axis is contiguous.
std::vector<std::byte> from_fortran_order(const NpyHeader& header, const std::byte* data, std::size_t bytes) {
  const std::size_t width = dtype_bytes(header.dtype);
  const std::size_t rank = header.shape.size();
  std::vector<Index> strides(rank, 1);
  for (std::size_t axis = 1; axis < rank; ++axis) strides[axis] = strides[axis - 1] * header.shape[axis - 1];
  std::vector<std::byte> result(bytes);
  std::vector<Index> at(rank, 0);
  Index from = 0;
  for (std::size_t to = 0; to < bytes; to += width) {
    std::memcpy(result.data() + to, data + static_cast<std::size_t>(from) * width, width);
    for (std::size_t axis = rank; axis-- > 0;) {
      from += strides[axis];
      if (++at[axis] < header.shape[axis]) break;
      from -= strides[axis] * header.shape[axis];
      at[axis] = 0;
    }
  }
  return result;
}

std::string descr_of(DType dtype) {
  const std::string width = std::to_string(dtype_bytes(dtype));
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kInt8:
    case DType::kUint8:
      return dtype == DType::kInt8 ? "|i1" : "|u1";
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return "<i" + width;
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return "<u" + width;
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return "<f" + width;
    case DType::kBFloat16:
      break;
  }
  throw DTypeError("write_npy: numpy has no name for " + std::string(dtype_name(dtype)));
}

}  // namespace

NpyFile::NpyFile(std::string path) : file_(std::move(path)) {
  NpyHeader header = parse_npy_header(file_.path(), file_.bytes());
  const std::span<const std::byte> data = file_.bytes().subspan(header.data_begin);
  tensor_ = {stem_of(file_.path()), header.dtype, header.shape, data.data()};
  if (header.fortran_order && header.shape.size() > 1 && !data.empty()) {
    c_order_ = from_fortran_order(header, data.data(), data.size());
    tensor_.data = c_order_.data();
  }
}

void write_npy(const std::string& path, const NamedTensor& tensor) {
  std::string dict = "{'descr': '" + descr_of(tensor.dtype) +
                     "', 'fortran_order': False, 'shape': " + format_shape(tensor.shape) + ", }";
  // The elements start at a multiple of 64; the header's last byte is a line break.
  constexpr std::size_t kPrefix = 10;
  dict.resize((kPrefix + dict.size() + 1 + 63) / 64 * 64 - kPrefix - 1, ' ');
  dict += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(dict.size());
  head += static_cast<char>(dict.size() >> 8);
  OutputFile file(path);
  file.write(head + dict);
  file.write({tensor.data, tensor.bytes()});
  file.commit();
}

}  // namespace headwise
