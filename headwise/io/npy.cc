// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/npy.h"

#include <cstring>
#include <utility>

#include "headwise/io/npy_format.h"
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

std::string descr_of(std::string_view who, DType dtype) {
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
  throw DTypeError(std::string(who) + ": numpy has no name for " + std::string(dtype_name(dtype)));
}

}  // namespace

std::string npy_start_of(std::string_view who, const NamedTensor& tensor) {
  std::string dict = "{'descr': '" + descr_of(who, tensor.dtype) +
                     "', 'fortran_order': False, 'shape': " + format_shape(tensor.shape) + ", }";
  // The elements start at a multiple of 64; the header's last byte is a line break.
  constexpr std::size_t kPrefix = 10;
  dict.resize((kPrefix + dict.size() + 1 + 63) / 64 * 64 - kPrefix - 1, ' ');
  dict += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(dict.size());
  start += static_cast<char>(dict.size() >> 8);
  return start + dict;
}

// Walks the elements in C order and fetches each from its place in Fortran order, where the first axis is contiguous.
NpyBlock npy_in_c_order(const NpyHeader& header, std::span<const std::byte> data) {
  const std::size_t rank = header.shape.size();
  if (!header.fortran_order || rank < 2 || data.empty()) return nullptr;
  const std::size_t width = dtype_bytes(header.dtype);
  std::vector<Index> strides(rank, 1);
  for (std::size_t axis = 1; axis < rank; ++axis) strides[axis] = strides[axis - 1] * header.shape[axis - 1];
  NpyBlock result = std::make_unique_for_overwrite<std::byte[]>(data.size());
  std::vector<Index> at(rank, 0);
  Index from = 0;
  for (std::size_t to = 0; to < data.size(); to += width) {
    std::memcpy(result.get() + to, data.data() + static_cast<std::size_t>(from) * width, width);
    for (std::size_t axis = rank; axis-- > 0;) {
      from += strides[axis];
      if (++at[axis] < header.shape[axis]) break;
      from -= strides[axis] * header.shape[axis];
      at[axis] = 0;
    }
  }
  return result;
}

NpyFile::NpyFile(std::string path) : file_(std::move(path)) {
  NpyHeader header = parse_npy_header(file_.path(), file_.bytes());
  const std::span<const std::byte> data = file_.bytes().subspan(header.data_begin);
  tensor_ = {stem_of(file_.path()), header.dtype, header.shape, data.data()};
  c_order_ = npy_in_c_order(header, data);
  if (c_order_ != nullptr) tensor_.data = c_order_.get();
}

void write_npy(const std::string& path, const NamedTensor& tensor) {
  const std::string start = npy_start_of("write_npy", tensor);
  OutputFile file(path);
  file.write(start);
  file.write({tensor.data, tensor.bytes()});
  file.commit();
}

}  // namespace headwise
