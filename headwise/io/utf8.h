// SPDX-License-Identifier: Apache-2.0
// UTF-8, one character at a time, with its faults.
#ifndef HEADWISE_IO_UTF8_H_
#define HEADWISE_IO_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headwise {

struct Utf8Character {
  std::size_t bytes = 1;  // 1 for a byte that begins no character
  std::uint32_t code = 0;
  bool valid = false;
};

// The character at the front of a text that is not empty. Overlong forms, surrogates and codes above 10FFFF are faults.
Utf8Character first_utf8_character(std::string_view text);

bool is_utf8(std::string_view text);

// The same text without what moves a cursor or is no UTF-8: control characters and faulty bytes become \xNN.
std::string printable(std::string_view text);

}  // namespace headwise

#endif  // HEADWISE_IO_UTF8_H_
