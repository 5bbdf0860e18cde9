// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors_json.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/json_events.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

const SafetensorsType* find_type(std::string_view name) {
  for (const SafetensorsType& type : safetensors_types()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

// Bits of a tensor, or nothing when they do not fit into 64 bits. A zero anywhere makes it empty.
std::optional<std::uint64_t> bits_of(const SafetensorsEntry& entry) {
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) return 0;
  std::uint64_t bits = entry.type->bits;
  for (const Index extent : entry.shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits)) return std::nullopt;
  }
  return bits;
}

class HeaderEvents : public JsonEvents {
 public:
  HeaderEvents(std::string_view path, std::uint64_t data_bytes, SafetensorsHeader& header)
      : JsonEvents(path, "header", kSafetensorsLengthBytes), data_bytes_(data_bytes), header_(header) {}

 protected:
  void on_begin_object() override;
  void on_begin_array() override;
  void on_end() override;
  void on_key(std::string name) override;
  void on_value(nlohmann::json value) override;

 private:
  enum class Place { kOutside, kTensors, kTensor, kShape, kOffsets, kMetadata };
  enum Seen : unsigned { kSeenDType = 1, kSeenShape = 2, kSeenOffsets = 4 };

  std::string tensor() const { return "tensor " + quote_name(entry_.name); }
  void begin_field();
  void read_dtype(const nlohmann::json& value);
  std::uint64_t read_count(const nlohmann::json& value) const;
  void finish_offsets();
  void finish_tensor();
  void spend(std::size_t bytes);

  std::uint64_t data_bytes_;
  SafetensorsHeader& header_;
  std::size_t memory_ = 0;
  bool seen_metadata_ = false;

  Place place_ = Place::kOutside;
  std::string key_;         // the name last read, at any level
  SafetensorsEntry entry_;  // the tensor being read
  unsigned seen_ = 0;       // its fields so far
  std::array<std::uint64_t, 2> offsets_{};
  std::size_t offset_count_ = 0;
};

// Counted before storing, so that the limit is never passed; a heap block has about 16 bytes of its own.
void HeaderEvents::spend(std::size_t bytes) {
  memory_ += bytes + 16;
  if (memory_ > SafetensorsHeader::kMaxMemory) {
    fail("header lists more than is read: " + std::to_string(SafetensorsHeader::kMaxMemory >> 20) +
         " MiB of names, shapes and metadata");
  }
}

void HeaderEvents::on_begin_object() {
  switch (place_) {
    case Place::kOutside:
      place_ = Place::kTensors;
      return;
    case Place::kTensors:
      place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
      if (place_ == Place::kMetadata) return;
      entry_ = {std::move(key_), nullptr, {}, 0, 0, offset()};
      seen_ = 0;
      return;
    case Place::kMetadata:
      fail("metadata " + quote_name(key_) + " must be a string, got an object");
    default:
      fail(tensor() + ": " + key_ + " holds an object");
  }
}

void HeaderEvents::on_begin_array() {
  switch (place_) {
    case Place::kTensor:
      if (key_ == "dtype") fail(tensor() + ": dtype must be a string, got an array");
      place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
      offset_count_ = 0;
      return;
    case Place::kTensors:
      fail("entry " + quote_name(key_) + " must be an object, got an array");
    case Place::kMetadata:
      fail("metadata " + quote_name(key_) + " must be a string, got an array");
    default:
      fail(tensor() + ": " + key_ + " holds an array inside its array");
  }
}

void HeaderEvents::on_end() {
  switch (place_) {
    case Place::kOffsets:
      finish_offsets();
      [[fallthrough]];
    case Place::kShape:
      place_ = Place::kTensor;
      return;
    case Place::kTensor:
      finish_tensor();
      [[fallthrough]];
    case Place::kMetadata:
      place_ = Place::kTensors;
      return;
    default:
      place_ = Place::kOutside;
  }
}

void HeaderEvents::on_key(std::string name) {
  key_ = std::move(name);
  if (place_ == Place::kTensor) return begin_field();
  if (key_.find('\0') != std::string::npos) fail("name " + quote_name(key_) + " has a NUL character");
  if (place_ == Place::kMetadata) {
    if (header_.metadata.contains(key_)) fail("metadata " + quote_name(key_) + " is given twice");
  } else if (key_ == "__metadata__" && std::exchange(seen_metadata_, true)) {
    fail("'__metadata__' is given twice");
  }
}

void HeaderEvents::begin_field() {
  unsigned field = 0;
  if (key_ == "dtype") field = kSeenDType;
  if (key_ == "shape") field = kSeenShape;
  if (key_ == "data_offsets") field = kSeenOffsets;
  if (field == 0) fail(tensor() + " has an unknown field " + quote_name(key_));
  if ((seen_ & field) != 0) fail(tensor() + ": " + key_ + " is given twice");
  seen_ |= field;
}

void HeaderEvents::on_value(nlohmann::json value) {
  switch (place_) {
    case Place::kMetadata:
      if (!value.is_string()) {
        fail("metadata " + quote_name(key_) + " must be a string, got a " + value.type_name());
      }
      spend(sizeof(std::pair<std::string, std::string>) + 48 + key_.size() + value.get_ref<std::string&>().size());
      header_.metadata.emplace(std::move(key_), std::move(value.get_ref<std::string&>()));
      return;
    case Place::kTensors:
      fail("entry " + quote_name(key_) + " must be an object, got a " + value.type_name());
    case Place::kTensor:
      return read_dtype(value);
    case Place::kShape:
      if (entry_.shape.size() == SafetensorsHeader::kMaxRank) {
        fail(tensor() + " has more than " + std::to_string(SafetensorsHeader::kMaxRank) + " axes");
      }
      entry_.shape.push_back(static_cast<Index>(read_count(value)));
      return;
    case Place::kOffsets:
      if (offset_count_ < 2) offsets_[offset_count_] = read_count(value);
      ++offset_count_;
      return;
    case Place::kOutside:
      return;  // not reached: the text starts with '{'
  }
}

void HeaderEvents::read_dtype(const nlohmann::json& value) {
  if (key_ != "dtype") fail(tensor() + ": " + key_ + " must be an array, got a " + value.type_name());
  if (!value.is_string()) fail(tensor() + ": dtype must be a string, got a " + value.type_name());
  const std::string& name = value.get_ref<const std::string&>();
  entry_.type = find_type(name);
  if (entry_.type == nullptr) fail(tensor() + " has an unknown dtype " + quote_name(name));
}

// A count of elements or bytes: a whole number that fits into 63 bits.
std::uint64_t HeaderEvents::read_count(const nlohmann::json& value) const {
  const std::string wanted = tensor() + ": " + key_ + " must hold whole numbers, got ";
  if (value.is_number_unsigned()) {
    const std::uint64_t count = value.get<std::uint64_t>();
    if (count > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) {
      fail(tensor() + ": " + key_ + " holds " + value.dump() + ", which does not fit into 63 bits");
    }
    return count;
  }
  // What has no fraction but 20 digits and more arrives as a float as well.
  fail(wanted + (value.is_number() ? value.dump() : "a " + std::string(value.type_name())));
}

void HeaderEvents::finish_offsets() {
  if (offset_count_ != 2) {
    fail(tensor() + ": data_offsets must be [begin, end], got " + std::to_string(offset_count_) + " numbers");
  }
  entry_.begin = offsets_[0];
  entry_.end = offsets_[1];
}

void HeaderEvents::finish_tensor() {
  for (const auto& [field, name] :
       {std::pair(kSeenDType, "dtype"), {kSeenShape, "shape"}, {kSeenOffsets, "data_offsets"}}) {
    if ((seen_ & field) == 0) fail(tensor() + " has no " + name);
  }
  const std::string offsets = "[" + std::to_string(entry_.begin) + ", " + std::to_string(entry_.end) + "]";
  if (entry_.begin > entry_.end) fail(tensor() + ": data_offsets " + offsets + " end before they begin");
  if (entry_.end > data_bytes_) {
    fail(tensor() + ": data_offsets " + offsets + " pass the end of the data, which has " +
         std::to_string(data_bytes_) + " bytes");
  }
  const std::string size = std::string(entry_.type->name) + " of shape " + format_shape(entry_.shape);
  const auto bits = bits_of(entry_);
  if (!bits) fail(tensor() + ": " + size + " is larger than any file");
  if (*bits % 8 != 0) fail(tensor() + ": " + size + " does not fill whole bytes");
  if (*bits / 8 != entry_.end - entry_.begin) {
    fail(tensor() + ": " + size + " needs " + std::to_string(*bits / 8) + " bytes, data_offsets give " +
         std::to_string(entry_.end - entry_.begin));
  }
  // The list doubles as it grows: count an entry one and a half times.
  spend(sizeof(SafetensorsEntry) * 3 / 2 + entry_.name.size() + entry_.shape.size() * sizeof(Index));
  header_.entries.push_back(std::move(entry_));
}

}  // namespace

void read_safetensors_json(std::string_view path, std::string_view text, std::uint64_t data_bytes,
                           SafetensorsHeader& header) {
  HeaderEvents(path, data_bytes, header).parse(text);
}

}  // namespace headwise
