// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/json_file.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/io/json_events.h"
#include "headwise/io/mapped_file.h"

namespace headwise {
namespace {

class JsonTree : public JsonEvents {
 public:
  JsonTree(std::string_view path, int max_depth) : JsonEvents(path, "file", 0), max_depth_(max_depth) {}
  nlohmann::json take() { return std::move(root_); }

 protected:
  void on_begin_object() override { open(nlohmann::json::object()); }
  void on_begin_array() override { open(nlohmann::json::array()); }
  void on_end() override { open_.pop_back(); }
  void on_key(std::string name) override {
    if (open_.back()->contains(name)) fail("key " + quote_name(name) + " is given twice");
    key_ = std::move(name);
  }
  void on_value(nlohmann::json value) override { place(std::move(value)); }

 private:
  void open(nlohmann::json empty) {
    if (static_cast<int>(open_.size()) == max_depth_) {
      fail("file is nested deeper than " + std::to_string(max_depth_) + " levels");
    }
    open_.push_back(place(std::move(empty)));
  }

  // The parents in open_ do not move while a child of theirs grows.
  nlohmann::json* place(nlohmann::json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    nlohmann::json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  int max_depth_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  std::string key_;
};

}  // namespace

nlohmann::json parse_json(std::string_view path, std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw FileError(path, "file has " + std::to_string(text.size()) + " bytes, more than the " +
                              std::to_string(limits.bytes) + " that are read");
  }
  JsonTree tree(path, limits.depth);
  tree.parse(text);
  return tree.take();
}

nlohmann::json read_json_file(const std::string& path, const JsonLimits& limits) {
  const MappedFile file(path);
  return parse_json(path, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, limits);
}

}  // namespace headwise
