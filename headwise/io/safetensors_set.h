// SPDX-License-Identifier: Apache-2.0
// The tensors of a model, whether they lie in one safetensors file or in several under an index; memory-mapped.
#ifndef HEADWISE_IO_SAFETENSORS_SET_H_
#define HEADWISE_IO_SAFETENSORS_SET_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/safetensors.h"

namespace headwise {

// Tensors borrow the files' memory: they live as long as the set does, and their data may be unaligned.
class SafetensorsSet {
 public:
  // path: a safetensors file; an index, by its name *.index.json; or a folder with model.safetensors or else
  // model.safetensors.index.json. Throws FileNotFound, or FileError: a fault of one of the files, a folder with neither
  // name, or an index that its files contradict: a missing file, a tensor that is not in the file it names, one that
  // lies in two files, one that the index does not list.
  explicit SafetensorsSet(const std::string& path);

  // The file or the index, for messages, and the folder it lies in ("." for a bare name).
  const std::string& path() const { return path_; }
  std::string folder() const;
  std::size_t file_count() const { return files_.size(); }
  // Of the one file; nothing where there are several.
  const std::map<std::string, std::string>& metadata() const;

  // Every tensor, in the order of their names.
  struct Place {
    const SafetensorsEntry* entry = nullptr;
    const SafetensorsFile* file = nullptr;
  };
  const std::vector<Place>& places() const { return places_; }
  // Null when there is no such tensor.
  const Place* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  // Throws FileError when there is no such tensor, or its dtype is one that headwise lists but does not read.
  NamedTensor tensor(std::string_view name) const;

 private:
  void open_index();
  void list();

  std::string path_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::vector<Place> places_;
};

}  // namespace headwise

#endif  // HEADWISE_IO_SAFETENSORS_SET_H_
