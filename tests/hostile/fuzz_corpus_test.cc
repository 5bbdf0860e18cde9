// SPDX-License-Identifier: Apache-2.0
// The files that libFuzzer found worth keeping, each through its reader: those abort, or a sanitizer does, on a fault.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/readers.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(HEADWISE_SOURCE_DIR) / "tests" / "fuzz" / "corpus";

std::vector<std::uint8_t> bytes_of_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(FuzzCorpus, EveryKeptFileIsRefusedOrReadByItsReader) {
  for (const FuzzedReader& reader : kFuzzedReaders) {
    int files = 0;
    for (const auto& entry : fs::directory_iterator(kCorpus / reader.name)) {
      SCOPED_TRACE(entry.path());
      const std::vector<std::uint8_t> bytes = bytes_of_file(entry.path());
      EXPECT_EQ(reader.fuzz_one(bytes.data(), bytes.size()), 0);
      ++files;
    }
    EXPECT_GE(files, 1) << reader.name;
  }
}

TEST(FuzzCorpus, EveryFolderHasItsReader) {
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    bool found = false;
    for (const FuzzedReader& reader : kFuzzedReaders) found |= entry.path().filename() == reader.name;
    EXPECT_TRUE(found) << entry.path();
  }
}

}  // namespace
}  // namespace headwise
