// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/file_error.h"

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
  constexpr char kHex[] = "0123456789abcdef";
  std::size_t shown = name.size();
  if (shown > kLongest) {
    shown = kLongest;
    // Do not cut a UTF-8 character in two.
    while (shown > 0 && (static_cast<unsigned char>(name[shown]) & 0xC0U) == 0x80U) --shown;
  }
  std::string text = "'";
  for (const char letter : name.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7F) {
      text.append("\\x").append({kHex[byte / 16], kHex[byte % 16]});
    } else {
      text += letter;
    }
  }
  return text + (shown < name.size() ? "...'" : "'");
}

}  // namespace headwise
