// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/shaded_table.h"
#include "headwise/tensor/tensor.h"

namespace headwise::cli {
namespace {

TEST(TextTable, WidthsAreThoseOfATerminal) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("\xC3\xA9"), 1);          // e with an accent
  EXPECT_EQ(display_width("e\xCC\x81"), 1);         // e and a combining accent
  EXPECT_EQ(display_width("\xE6\xBC\xA2"), 2);      // a Chinese character
  EXPECT_EQ(display_width("\xF0\x9F\x99\x82"), 2);  // a face
  EXPECT_EQ(display_width("\xFF\xC3"), 2);          // no UTF-8
}

TEST(TextTable, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdefg", 6), "abcde…");
  EXPECT_EQ(cut_to_width("\xE6\xBC\xA2\xE6\xBC\xA2", 3), "\xE6\xBC\xA2…");
}

TEST(TextTable, ColumnsLineUp) {
  const Align columns[] = {Align::kLeft, Align::kRight};
  const std::vector<std::string> rows[] = {{"a", "1"}, {"\xC3\xA9t\xC3\xA9", "20"}, {"", ""}};
  EXPECT_EQ(text_table(columns, rows), "  a     1\n  \xC3\xA9t\xC3\xA9  20\n\n");
}

TEST(ShadedTable, ACellIsAShadeAndAPercentage) {
  Tensor<float, 2> weights({2, 2});
  weights(0, 0) = 1;
  weights(1, 0) = 0.75F;
  weights(1, 1) = 0.25F;
  const std::string tokens[] = {"one", "a\x1b"};
  EXPECT_EQ(shaded_table(weights.view(), tokens, {}),
            "                   one a\\x1b\n"
            "  one            █100     0\n"
            "  a\\x1b          ▓ 75  ░ 25\n");
}

TEST(ShadedTable, ALongSentenceIsShownAroundItsLargestWeightAndSaysSo) {
  const Index seq = 100;
  Tensor<float, 2> weights({seq, seq});
  weights(90, 50) = 1;
  const std::vector<std::string> tokens(seq, "t");
  Terminal terminal;
  terminal.width = 80;
  const std::string table = shaded_table(weights.view(), tokens, terminal);
  EXPECT_NE(table.find("█100"), std::string::npos);
  EXPECT_NE(table.find("  Shown around the largest weight: queries 60..99 of 100, keys 45..54 of 100.\n"
                       "  All of them: --json.\n"),
            std::string::npos)
      << table;
  for (std::size_t begin = 0; begin < table.size(); begin = table.find('\n', begin) + 1) {
    EXPECT_LE(display_width(table.substr(begin, table.find('\n', begin) - begin)), 80);
  }
}

TEST(Terminal, WhatIsNoTerminalGetsNoColours) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Terminal terminal = detect_terminal(ends[1], [](const char*) { return "xterm-256color"; });
  EXPECT_FALSE(terminal.colour);
  EXPECT_EQ(terminal.width, 100);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Terminal, ATerminalGetsColoursUnlessItOrTheUserDoesNotWantThem) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const auto colour = [&](const char* term, const char* no_colour) {
    return detect_terminal(terminal,
                           [&](const char* name) {
                             return std::string_view(name) == "TERM"       ? term
                                    : std::string_view(name) == "NO_COLOR" ? no_colour
                                                                           : nullptr;
                           })
        .colour;
  };
  EXPECT_TRUE(colour("xterm-256color", nullptr));
  EXPECT_TRUE(colour("xterm-256color", ""));
  EXPECT_FALSE(colour("xterm-256color", "1"));
  EXPECT_FALSE(colour("dumb", nullptr));
  EXPECT_FALSE(colour(nullptr, nullptr));
  ::close(terminal);
}

}  // namespace
}  // namespace headwise::cli
