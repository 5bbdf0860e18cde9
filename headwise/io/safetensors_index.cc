// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors_index.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/json_events.h"
#include "headwise/io/mapped_file.h"

namespace headwise {
namespace {

// {"metadata": anything, "weight_map": {"tensor": "file", ...}}
class IndexReader : public JsonEvents {
 public:
  explicit IndexReader(std::string_view path) : JsonEvents(path, "index", 0) {}

  std::map<std::string, std::string> take() {
    if (!seen_) throw FileError(path(), "index has no \"weight_map\"");
    return std::move(map_);
  }

 protected:
  void on_begin_object() override {
    if (depth_ == 1 && at_map_) in_map_ = true;
    open("an object");
  }
  void on_begin_array() override {
    if (depth_ == 0 || (depth_ == 1 && at_map_)) fail_map_or_index();
    open("an array");
  }
  void on_end() override {
    --depth_;
    if (depth_ == 1) in_map_ = at_map_ = false;
  }
  void on_key(std::string name) override {
    if (depth_ == 1) {
      at_map_ = name == "weight_map";
      if (at_map_ && std::exchange(seen_, true)) fail("\"weight_map\" is given twice");
    } else if (in_map_) {
      tensor_ = std::move(name);
      if (map_.contains(tensor_)) fail("tensor " + quote_name(tensor_) + " is listed twice");
    }
  }
  void on_value(nlohmann::json value) override {
    if (depth_ == 0 || (depth_ == 1 && at_map_)) fail_map_or_index();
    if (!in_map_) return;
    if (!value.is_string()) fail("the file of tensor " + quote_name(tensor_) + " must be a string");
    std::string& file = map_[tensor_];
    file = std::move(value.get_ref<std::string&>());
    // Only a name: anything with a slash would leave the folder.
    if (file.empty() || file == "." || file == ".." || file.find_first_of(std::string_view("/\0", 2)) != file.npos) {
      fail("tensor " + quote_name(tensor_) + " is said to lie in " + quote_name(file) +
           ", which is not the name of a file beside the index");
    }
  }

 private:
  static constexpr int kMaxDepth = 32;

  [[noreturn]] void fail_map_or_index() const {
    fail(depth_ == 0 ? "index must be an object" : "\"weight_map\" must be an object");
  }
  void open(const char* what) {
    if (in_map_ && depth_ > 1) fail("the file of tensor " + quote_name(tensor_) + " must be a string, got " + what);
    if (++depth_ > kMaxDepth) fail("index is nested deeper than " + std::to_string(kMaxDepth) + " levels");
  }

  int depth_ = 0;
  bool at_map_ = false, in_map_ = false, seen_ = false;
  std::string tensor_;
  std::map<std::string, std::string> map_;
};

}  // namespace

std::map<std::string, std::string> read_safetensors_index(const std::string& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxIndexBytes) {
    throw FileError(path, "file has " + std::to_string(file.bytes().size()) + " bytes, more than the " +
                              std::to_string(kMaxIndexBytes) + " that are read");
  }
  IndexReader reader(path);
  reader.parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  return reader.take();
}

}  // namespace headwise
