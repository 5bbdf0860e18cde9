// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/utf8.h"

#include <gtest/gtest.h>

namespace headwise {
namespace {

TEST(Utf8, CharactersOfEveryLengthAreRead) {
  const std::pair<const char*, std::uint32_t> characters[] = {{"a", 'a'},
                                                              {"\xC2\x80", 0x80},
                                                              {"\xE0\xA0\x80", 0x800},
                                                              {"\xEF\xBF\xBF", 0xFFFF},
                                                              {"\xF0\x90\x80\x80", 0x10000},
                                                              {"\xF4\x8F\xBF\xBF", 0x10FFFF}};
  for (const auto& [text, code] : characters) {
    const Utf8Character character = first_utf8_character(text);
    EXPECT_TRUE(character.valid) << code;
    EXPECT_EQ(character.code, code);
    EXPECT_EQ(character.bytes, std::string_view(text).size());
  }
}

TEST(Utf8, EveryFaultIsOneByte) {
  for (const char* text : {"\x80", "\xFF", "\xC0\xAF", "\xC1\x81", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xE2\x82",
                           "\xC3"
                           "a"}) {
    const Utf8Character character = first_utf8_character(text);
    EXPECT_FALSE(character.valid) << printable(text);
    EXPECT_EQ(character.bytes, 1U);
    EXPECT_FALSE(is_utf8(text));
  }
  EXPECT_TRUE(is_utf8("h\xC3\xA9 \xF0\x9F\x99\x82"));
}

TEST(Utf8, PrintableTextIsUtf8WithoutControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31m\r\n\x7f"), "a\\x1b[31m\\x0d\\x0a\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"), "\\x9b");
  EXPECT_EQ(printable("h\xC3\xA9\xFF\xC3"), "h\xC3\xA9\\xff\\xc3");
}

}  // namespace
}  // namespace headwise
