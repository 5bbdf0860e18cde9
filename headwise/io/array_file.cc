// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/array_file.h"

#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

using AnyFile = std::variant<NpyFile, NpzFile, SafetensorsFile>;

AnyFile open_by_ending(const std::string& path) {
  if (path.ends_with(".npy")) return NpyFile(path);
  if (path.ends_with(".npz")) return NpzFile(path);
  if (path.ends_with(".safetensors")) return SafetensorsFile(path);
  throw FileError(path, "the name of a file of arrays must end in " + std::string(kArrayEndings));
}

const NamedTensor& only_array(const NpyFile& file, std::string_view name) {
  if (file.tensor().name == name) return file.tensor();
  throw FileError(file.path(),
                  "there is no array " + quote_name(name) + "; it holds " + quote_name(file.tensor().name) + " alone");
}

}  // namespace

ArrayFile::ArrayFile(const std::string& path) : path_(path), file_(open_by_ending(path)) {}

std::vector<std::string> ArrayFile::names() const {
  if (const auto* npy = std::get_if<NpyFile>(&file_)) return {npy->tensor().name};
  if (const auto* npz = std::get_if<NpzFile>(&file_)) return npz->names();
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : std::get<SafetensorsFile>(file_).header().entries) names.push_back(entry.name);
  return names;
}

ArrayFacts ArrayFile::facts(std::string_view name) const {
  if (const auto* npz = std::get_if<NpzFile>(&file_)) {
    NpyHeader header = npz->header(name);
    return {header.dtype, std::move(header.shape)};
  }
  const auto* npy = std::get_if<NpyFile>(&file_);
  const NamedTensor tensor = npy != nullptr ? only_array(*npy, name) : std::get<SafetensorsFile>(file_).tensor(name);
  return {tensor.dtype, tensor.shape};
}

NamedTensor ArrayFile::array(std::string_view name) {
  if (const auto* npy = std::get_if<NpyFile>(&file_)) return only_array(*npy, name);
  if (const auto* npz = std::get_if<NpzFile>(&file_)) {
    unpacked_.push_back(npz->array(name));
    return unpacked_.back().tensor();
  }
  return std::get<SafetensorsFile>(file_).tensor(name);
}

bool is_array_path(std::string_view path) { return path.ends_with(".npy") || holds_many_arrays(path); }

bool holds_many_arrays(std::string_view path) { return path.ends_with(".npz") || path.ends_with(".safetensors"); }

void write_arrays(const std::string& path, std::span<const NamedTensor> arrays) {
  if (path.ends_with(".npz")) return write_npz(path, arrays);
  if (path.ends_with(".safetensors")) return write_safetensors(path, arrays);
  if (!path.ends_with(".npy")) {
    throw ArgumentError("write_arrays: the name of a file of arrays must end in " + std::string(kArrayEndings) +
                        ", got " + quote_name(path));
  }
  if (arrays.size() != 1) {
    throw ArgumentError("write_arrays: an npy file holds one array, got " + std::to_string(arrays.size()));
  }
  write_npy(path, arrays.front());
}

}  // namespace headwise
