// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/output_file.h"
#include "headwise/io/utf8.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

// A JSON string in quotes. Throws ArgumentError for text that no header may hold.
std::string json_string(const std::string& text) {
  if (!is_utf8(text)) throw ArgumentError("write_safetensors: " + quote_name(text) + " is not UTF-8");
  return nlohmann::json(text).dump();
}

std::string_view type_name(DType dtype) {
  for (const SafetensorsType& type : safetensors_types()) {
    if (type.dtype == dtype) return type.name;
  }
  throw DTypeError("write_safetensors: safetensors has no name for " + std::string(dtype_name(dtype)));
}

std::vector<const NamedTensor*> file_order(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  const auto key = [](const NamedTensor* tensor) {
    return std::tuple(-static_cast<int>(dtype_bytes(tensor->dtype)), std::string_view(tensor->name));
  };
  std::sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return order;
}

void check_names(std::span<const NamedTensor> tensors) {
  std::vector<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    names.push_back(tensor.name);
    if (!tensor.name.empty() && tensor.name != "__metadata__" && tensor.name.find('\0') == std::string::npos) continue;
    throw ArgumentError("write_safetensors: " + quote_name(tensor.name) + " cannot be the name of a tensor");
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw ArgumentError("write_safetensors: tensor " + quote_name(*twice) + " is given twice");
  }
}

std::string header_of(std::span<const NamedTensor* const> order, const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto separate = [&] {
    if (text.size() > 1) text += ',';
  };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [name, value] : metadata) {
      text += std::exchange(first, false) ? "" : ",";
      text += json_string(name) + ":" + json_string(value);
    }
    text += '}';
  }
  std::size_t begin = 0;
  for (const NamedTensor* tensor : order) {
    const std::size_t end = begin + tensor->bytes();
    separate();
    text += json_string(tensor->name) + ":{\"dtype\":\"" + std::string(type_name(tensor->dtype)) +
            "\",\"shape\":" + nlohmann::json(tensor->shape).dump() + ",\"data_offsets\":[" + std::to_string(begin) +
            "," + std::to_string(end) + "]}";
    begin = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// What stands in front of the data: the header's length and the header.
std::string beginning_of(std::span<const NamedTensor* const> order,
                         const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(order, metadata);
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path)
    : file_(std::in_place, std::move(path)),
      path_(file_->path()),
      bytes_(file_->bytes()),
      header_(parse_safetensors_header(path_, bytes_)) {}

SafetensorsFile::SafetensorsFile(std::string name, std::span<const std::byte> bytes)
    : path_(std::move(name)), bytes_(bytes), header_(parse_safetensors_header(path_, bytes_)) {}

NamedTensor SafetensorsFile::tensor_of(const SafetensorsEntry& entry) const {
  if (!entry.type->dtype) {
    throw FileError(path(),
                    "tensor " + quote_name(entry.name) + " has dtype " + std::string(entry.type->name) +
                        ", which headwise does not read",
                    entry.declared_at);
  }
  return {entry.name, *entry.type->dtype, entry.shape, bytes_.data() + header_.data_begin + entry.begin};
}

NamedTensor SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = header_.find(name);
  if (entry == nullptr) throw FileError(path(), "there is no tensor " + quote_name(name));
  return tensor_of(*entry);
}

std::vector<NamedTensor> SafetensorsFile::tensors() const {
  std::vector<NamedTensor> all;
  all.reserve(header_.entries.size());
  for (const SafetensorsEntry& entry : header_.entries) all.push_back(tensor_of(entry));
  return all;
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  check_names(tensors);
  const std::vector<const NamedTensor*> order = file_order(tensors);
  const std::string beginning = beginning_of(order, metadata);
  OutputFile file(path);
  file.write(beginning);
  for (const NamedTensor* tensor : order) file.write({tensor->data, tensor->bytes()});
  file.commit();
}

std::string pack_safetensors(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  check_names(tensors);
  const std::vector<const NamedTensor*> order = file_order(tensors);
  std::string bytes = beginning_of(order, metadata);
  for (const NamedTensor* tensor : order) bytes.append(reinterpret_cast<const char*>(tensor->data), tensor->bytes());
  return bytes;
}

}  // namespace headwise
