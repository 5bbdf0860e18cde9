// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/file_error.h"

#include "headwise/io/utf8.h"

namespace headwise {
namespace {

std::string message_of(std::string_view path, std::string_view reason, std::optional<std::uint64_t> offset) {
  std::string text(path);
  text.append(": ").append(reason);
  if (offset) text += " (byte " + std::to_string(*offset) + ")";
  return text;
}

}  // namespace

FileError::FileError(std::string_view path, std::string_view reason, std::optional<std::uint64_t> offset)
    : std::runtime_error(message_of(path, reason, offset)), path_(path), offset_(offset) {}

std::string quote_name(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::size_t shown = 0;
  while (shown < name.size()) {
    const std::size_t next = shown + first_utf8_character(name.substr(shown)).bytes;
    if (next > kLongest) break;
    shown = next;
  }
  return "'" + printable(name.substr(0, shown)) + (shown < name.size() ? "...'" : "'");
}

}  // namespace headwise
