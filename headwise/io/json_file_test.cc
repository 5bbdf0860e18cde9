// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/json_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "headwise/io/file_error.h"
#include "tests/fuzz/json_fuzz.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  json_fuzz::fuzz_one(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return message_of([&] { parse_json("c.json", text, limits); });
}

TEST(JsonFile, ATreeIsReadAsItStands) {
  const TemporaryFolder folder;
  const std::string text = R"({"a": [1, -2, 2.5, true, null, "x\u00e9"], "b": {"c": {}, "d": []}})";
  EXPECT_EQ(read_json_file(folder.write("config.json", text)), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json("c.json", " 7 "), nlohmann::json(7));
}

TEST(JsonFile, EveryFaultIsRefusedWithItsByte) {
  EXPECT_EQ(refusal(""), "c.json: file ends before its JSON does (byte 0)");
  EXPECT_EQ(refusal("{"), "c.json: file ends before its JSON does (byte 1)");
  EXPECT_EQ(refusal("{} x"), "c.json: file is not JSON: unexpected 'x' (byte 4)");
  EXPECT_EQ(refusal("[1,]"), "c.json: file is not JSON: unexpected ']' (byte 4)");
  EXPECT_EQ(refusal("\xFF"), "c.json: file is not JSON: unexpected '\\xff' (byte 1)");
  EXPECT_EQ(refusal("\"\xFF\""), "c.json: file is not valid UTF-8 (byte 2)");
  EXPECT_EQ(refusal(std::string("{}\0", 3)), "c.json: file has a NUL byte (byte 3)");
  EXPECT_EQ(refusal("[1e999]"), "c.json: file has a number out of range (byte 7)");
  EXPECT_EQ(refusal(R"({"a":1,"b":{"a":1,"a":2}})"), "c.json: key 'a' is given twice (byte 21)");
}

TEST(JsonFile, DepthAndSizeAreBounded) {
  EXPECT_EQ(refusal("[[[]]]", {.depth = 2}), "c.json: file is nested deeper than 2 levels (byte 3)");
  EXPECT_EQ(refusal(std::string(1000, '[')), "c.json: file is nested deeper than 32 levels (byte 33)");
  EXPECT_EQ(refusal("[1,2]", {.bytes = 4}), "c.json: file has 5 bytes, more than the 4 that are read");
}

}  // namespace
}  // namespace headwise
