// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/utf8.h"

namespace headwise {
namespace {

// Bytes of a character by the first of them; 0 for one that begins none.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

}  // namespace

Utf8Character first_utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::size_t length = length_of(byte(0));
  const Utf8Character fault{1, byte(0), false};
  if (length == 0 || length > text.size()) return fault;
  std::uint32_t code = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return fault;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return fault;
  return {length, code, true};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character character = first_utf8_character(text);
    if (!character.valid) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string shown;
  while (!text.empty()) {
    const Utf8Character character = first_utf8_character(text);
    // C0, DEL and C1.
    const bool control = character.code < 0x20 || (character.code >= 0x7F && character.code < 0xA0);
    if (control || !character.valid) {
      shown.append("\\x").append({kHex[character.code / 16], kHex[character.code % 16]});
    } else {
      shown += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return shown;
}

}  // namespace headwise
