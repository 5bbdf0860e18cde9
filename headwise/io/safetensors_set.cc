// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors_set.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/safetensors_index.h"

namespace headwise {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// What is there but cannot be examined counts: opening it says why.
bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

// The file that a folder stands for; a path that is no folder stands for itself.
std::string file_of(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  const std::string folder = path.ends_with('/') ? path : path + "/";
  for (const char* name : {kSingle, kIndex}) {
    if (exists(folder + name)) return folder + name;
  }
  throw FileError(path, std::string("is a folder with neither ") + kSingle + " nor " + kIndex);
}

std::string short_name(const SafetensorsFile& file) {
  return quote_name(std::string_view(file.path()).substr(file.path().rfind('/') + 1));
}

std::string lies_in(std::string_view tensor, std::string_view file) {
  return "tensor " + quote_name(tensor) + " is said to lie in " + quote_name(file);
}

}  // namespace

SafetensorsSet::SafetensorsSet(const std::string& path) : path_(file_of(path)) {
  if (path_.ends_with(".index.json")) {
    open_index();
  } else {
    files_.push_back(std::make_unique<SafetensorsFile>(path_));
    list();
  }
}

std::string SafetensorsSet::folder() const {
  const std::size_t slash = path_.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path_.substr(0, slash);
}

void SafetensorsSet::open_index() {
  const std::map<std::string, std::string> map = read_safetensors_index(path_);
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [tensor, name] : map) {
    if (opened.contains(name)) continue;
    const std::string file = folder() + "/" + name;
    if (!exists(file)) throw FileError(path_, lies_in(tensor, name) + ", which is missing");
    files_.push_back(std::make_unique<SafetensorsFile>(file));
    opened[name] = files_.back().get();
  }
  for (const auto& [tensor, name] : map) {
    if (!opened[name]->contains(tensor)) throw FileError(path_, lies_in(tensor, name) + ", which does not hold it");
  }
  list();
  for (std::size_t i = 1; i < places_.size(); ++i) {
    const std::string& name = places_[i].entry->name;
    if (places_[i - 1].entry->name != name) continue;
    throw FileError(path_, "tensor " + quote_name(name) + " lies in two files, " + short_name(*places_[i - 1].file) +
                               " and " + short_name(*places_[i].file));
  }
  for (const Place& place : places_) {
    if (map.contains(place.entry->name)) continue;
    throw FileError(path_, short_name(*place.file) + " holds tensor " + quote_name(place.entry->name) +
                               ", which the index does not list");
  }
}

void SafetensorsSet::list() {
  for (const auto& file : files_) {
    for (const SafetensorsEntry& entry : file->header().entries) places_.push_back({&entry, file.get()});
  }
  const auto key = [](const Place& place) {
    return std::pair<std::string_view, std::string_view>(place.entry->name, place.file->path());
  };
  std::sort(places_.begin(), places_.end(), [&](const Place& a, const Place& b) { return key(a) < key(b); });
}

const std::map<std::string, std::string>& SafetensorsSet::metadata() const {
  static const std::map<std::string, std::string> kNone;
  return files_.size() == 1 ? files_.front()->metadata() : kNone;
}

const SafetensorsSet::Place* SafetensorsSet::find(std::string_view name) const {
  const auto found =
      std::lower_bound(places_.begin(), places_.end(), name,
                       [](const Place& place, std::string_view wanted) { return place.entry->name < wanted; });
  return found != places_.end() && found->entry->name == name ? &*found : nullptr;
}

NamedTensor SafetensorsSet::tensor(std::string_view name) const {
  const Place* place = find(name);
  if (place == nullptr) throw FileError(path_, "there is no tensor " + quote_name(name));
  return place->file->tensor(name);
}

}  // namespace headwise
