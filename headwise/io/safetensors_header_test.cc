// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors_header.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "tests/fuzz/safetensors_fuzz.h"
#include "tests/hostile/safetensors_lies.h"
#include "tests/support/file_bytes.h"

namespace headwise {
namespace {

TEST(SafetensorsHeader, EveryLieIsRefusedWithItsOwnMessage) {
  for (const Lie& lie : safetensors_lies()) {
    EXPECT_EQ(message_of([&] { parse_safetensors_header("f", as_bytes(lie.file)); }), lie.message) << lie.what;
  }
}

TEST(SafetensorsHeader, ThereAreMoreThanSixtyLies) { EXPECT_GE(safetensors_lies().size(), 60U); }

TEST(SafetensorsHeader, EveryLieIsAFileErrorThatKnowsItsPathAndByte) {
  for (const Lie& lie : safetensors_lies()) {
    try {
      parse_safetensors_header("f", as_bytes(lie.file));
      ADD_FAILURE() << lie.what;
    } catch (const FileError& error) {
      EXPECT_EQ(error.path(), "f") << lie.what;
      ASSERT_TRUE(error.offset().has_value()) << lie.what;
      EXPECT_LE(*error.offset(), lie.file.size()) << lie.what;
    }
  }
}

TEST(SafetensorsHeader, EveryPrefixOfAGoodFileAndOfEveryLieIsRefusedOrRead) {
  std::vector<std::string> files{one_tensor(kGoodTensor)};
  for (const Lie& lie : safetensors_lies()) files.push_back(lie.file);
  for (const std::string& file : files) {
    for (std::size_t size = 0; size <= file.size(); ++size) {
      // A copy of its own, so that a sanitizer sees the first byte behind it.
      const std::vector<std::uint8_t> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      safetensors_fuzz::fuzz_one(cut.data(), cut.size());
    }
  }
}

TEST(SafetensorsHeader, EveryChangedByteOfAGoodFileIsRefusedOrRead) {
  const std::string good = one_tensor(kGoodTensor + R"(},"b":{"dtype":"F16","shape":[0,3],"data_offsets":[8,8])");
  ASSERT_EQ(parse_safetensors_header("f", as_bytes(good)).entries.size(), 2U);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<std::uint8_t> changed(good.begin(), good.end());
      changed[at] = static_cast<std::uint8_t>(value);
      safetensors_fuzz::fuzz_one(changed.data(), changed.size());
    }
  }
}

}  // namespace
}  // namespace headwise
