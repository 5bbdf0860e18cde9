// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/io/npy_format.h"
#include "headwise/io/npz.h"
#include "headwise/io/output_file.h"
#include "headwise/io/zip_fields.h"
#include "headwise/io/zip_records.h"
#include "headwise/io/zip_unpack.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

void check_names(std::span<const NamedTensor> tensors) {
  std::vector<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    names.push_back(tensor.name);
    if (const auto fault = zip_name_fault(tensor.name)) {
      throw ArgumentError("write_npz: array " + quote_name(tensor.name) + " " + std::string(*fault));
    }
    if (tensor.name.size() + 4 > kZipElsewhere16) {
      throw ArgumentError("write_npz: array " + quote_name(tensor.name) + " has a name that is too long");
    }
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw ArgumentError("write_npz: array " + quote_name(*twice) + " is given twice");
}

}  // namespace

void write_npz(const std::string& path, std::span<const NamedTensor> tensors) {
  check_names(tensors);
  std::vector<std::string> starts;
  for (const NamedTensor& tensor : tensors) starts.push_back(npy_start_of("write_npz", tensor));
  OutputFile file(path);
  std::string directory;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const std::byte> data(tensors[i].data, tensors[i].bytes());
    ZipMember member;
    member.name = tensors[i].name + ".npy";
    member.checksum = zip_checksum(data, zip_checksum(std::as_bytes(std::span(starts[i]))));
    member.bytes = starts[i].size() + data.size();
    member.local_at = at;
    const std::string local = zip_local_record(member);
    file.write(local + starts[i]);
    file.write(data);
    at += local.size() + member.bytes;
    directory += zip_entry_record(member);
  }
  file.write(directory + zip_end_record(tensors.size(), at, at + directory.size()));
  file.commit();
}

}  // namespace headwise
