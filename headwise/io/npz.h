// SPDX-License-Identifier: Apache-2.0
// numpy's .npz files: named arrays in a zip archive, as numpy.savez and numpy.savez_compressed write them.
#ifndef HEADWISE_IO_NPZ_H_
#define HEADWISE_IO_NPZ_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/io/mapped_file.h"
#include "headwise/io/npy.h"
#include "headwise/tensor/named_tensor.h"

namespace headwise {

// One array of an archive, in C order. It borrows from the file where it lies there as it is.
class NpzArray {
 public:
  NpzArray(NamedTensor tensor, std::unique_ptr<std::byte[]> owned)
      : owned_(std::move(owned)), tensor_(std::move(tensor)) {}

  const NamedTensor& tensor() const { return tensor_; }

 private:
  std::unique_ptr<std::byte[]> owned_;
  NamedTensor tensor_;
};

class NpzArchive;

// An open archive. Opening it checks its directory; an array is unpacked and checked when it is asked for.
class NpzFile {
 public:
  // Throws FileNotFound, or FileError naming the first fault and its byte: members that overlap or leave holes, come
  // twice, are encrypted, packed by another method than stored and deflated, or are no .npy files.
  explicit NpzFile(std::string path);
  NpzFile(NpzFile&&) noexcept;
  NpzFile& operator=(NpzFile&&) noexcept;
  ~NpzFile();

  const std::string& path() const { return file_.path(); }
  // Without ".npy", in the archive's order.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;

  // Type and shape, with as little unpacked as tells them. Both throw FileError when there is no such array, or for a
  // fault in it ("<path>: member 'a.npy': has a wrong checksum"), whose byte counts from the start of the file in
  // packed data and from the start of the array in its header.
  NpyHeader header(std::string_view name) const;
  // Never unpacks more than the header says, nor reserves memory before the header and the archive agree.
  NpzArray array(std::string_view name) const;

 private:
  MappedFile file_;
  std::unique_ptr<NpzArchive> archive_;
};

// Writes an archive of stored arrays, as numpy.savez does; equal contents give equal files. Throws ArgumentError for a
// name that is empty, given twice, not UTF-8 or leads out of a folder, DTypeError for bfloat16, and as OutputFile does.
void write_npz(const std::string& path, std::span<const NamedTensor> tensors);

}  // namespace headwise

#endif  // HEADWISE_IO_NPZ_H_
