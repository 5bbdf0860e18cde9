// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

class SafetensorsSetTest : public testing::Test {
 protected:
  void SetUp() override {
    write_shard("a.safetensors", {"x", "z"});
    write_shard("b.safetensors", {"y"});
  }

  // One float32 number each: 1, 2, ...
  void write_shard(const std::string& name, const std::vector<std::string>& tensors) {
    std::vector<float> values(tensors.size());
    std::vector<NamedTensor> all;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      values[i] = static_cast<float>(i + 1);
      all.push_back({tensors[i], DType::kFloat32, {1}, reinterpret_cast<const std::byte*>(&values[i])});
    }
    write_safetensors(folder_.file(name), all);
  }

  std::string refusal(const std::string& index) {
    folder_.write(kIndexName, index);
    std::string text = message_of([&] { SafetensorsSet(folder_.path()); });
    if (text.starts_with(folder_.path() + "/")) text.erase(0, folder_.path().size() + 1);
    return text;
  }

  std::string refusal_of_map(const std::string& map) { return refusal("{\"weight_map\": " + map + "}"); }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsSetTest, SeveralFilesUnderAnIndexAreOneSetInTheOrderOfNames) {
  folder_.write(kIndexName, R"({"metadata": {"total_size": 12, "more": [{}]}, "weight_map":
      {"z": "a.safetensors", "y": "b.safetensors", "x": "a.safetensors"}})");
  for (const std::string& path : {folder_.path(), folder_.path() + "/", folder_.file(kIndexName)}) {
    const SafetensorsSet set(path);
    EXPECT_EQ(set.file_count(), 2U);
    ASSERT_EQ(set.places().size(), 3U);
    EXPECT_EQ(set.places()[0].entry->name, "x");
    EXPECT_EQ(set.places()[2].entry->name, "z");
    float value = 0;
    std::memcpy(&value, set.tensor("z").data, sizeof(float));
    EXPECT_EQ(value, 2);
    EXPECT_EQ(set.find("w"), nullptr);
    EXPECT_TRUE(set.metadata().empty());
    EXPECT_EQ(message_of([&] { set.tensor("w"); }), set.path() + ": there is no tensor 'w'");
  }
}

TEST_F(SafetensorsSetTest, OneFileStandsForItselfAndComesBeforeAnIndex) {
  const SafetensorsSet one(folder_.file("b.safetensors"));
  EXPECT_EQ(one.file_count(), 1U);
  EXPECT_EQ(one.folder(), folder_.path());
  write_shard("model.safetensors", {"w"});
  folder_.write(kIndexName, "not read");
  EXPECT_TRUE(SafetensorsSet(folder_.path()).contains("w"));
}

TEST_F(SafetensorsSetTest, AFolderWithoutAModelAndAMissingFileAreNamed) {
  EXPECT_EQ(message_of([&] { SafetensorsSet(folder_.path()); }),
            folder_.path() + ": is a folder with neither model.safetensors nor model.safetensors.index.json");
  EXPECT_THROW(SafetensorsSet(folder_.file("absent")), FileNotFound);
}

TEST_F(SafetensorsSetTest, AnIndexThatItsFilesContradictIsRefused) {
  EXPECT_EQ(refusal_of_map(R"({"x": "a.safetensors", "z": "a.safetensors", "y": "c.safetensors"})"),
            std::string(kIndexName) + ": tensor 'y' is said to lie in 'c.safetensors', which is missing");
  EXPECT_EQ(refusal_of_map(R"({"x": "a.safetensors", "z": "b.safetensors", "y": "b.safetensors"})"),
            std::string(kIndexName) + ": tensor 'z' is said to lie in 'b.safetensors', which does not hold it");
  EXPECT_EQ(refusal_of_map(R"({"x": "a.safetensors", "y": "b.safetensors"})"),
            std::string(kIndexName) + ": 'a.safetensors' holds tensor 'z', which the index does not list");
  write_shard("b.safetensors", {"y", "x"});
  EXPECT_EQ(refusal_of_map(R"({"x": "a.safetensors", "z": "a.safetensors", "y": "b.safetensors"})"),
            std::string(kIndexName) + ": tensor 'x' lies in two files, 'a.safetensors' and 'b.safetensors'");
  folder_.write("b.safetensors", "short");
  EXPECT_EQ(refusal_of_map(R"({"x": "a.safetensors", "z": "a.safetensors", "y": "b.safetensors"})"),
            "b.safetensors: file has 5 bytes, too few for the 8 of the header length (byte 5)");
}

TEST_F(SafetensorsSetTest, AnIndexNeverLeavesItsFolder) {
  const std::string outside = "which is not the name of a file beside the index";
  for (const char* name : {"../a.safetensors", "/etc/passwd", "sub/a.safetensors", "..", ".", "", "a\\u0000b"}) {
    const std::string text = refusal_of_map("{\"x\": \"" + std::string(name) + "\"}");
    EXPECT_TRUE(text.starts_with(std::string(kIndexName) + ": tensor 'x' is said to lie in '")) << text;
    EXPECT_NE(text.find(outside), std::string::npos) << text;
  }
  EXPECT_EQ(refusal_of_map(R"({"x": "../a.safetensors"})"),
            std::string(kIndexName) + ": tensor 'x' is said to lie in '../a.safetensors', " + outside + " (byte 39)");
}

TEST_F(SafetensorsSetTest, AnIndexOfAnotherFormIsRefused) {
  const std::string name = std::string(kIndexName) + ": ";
  EXPECT_EQ(refusal("[]"), name + "index must be an object (byte 1)");
  EXPECT_EQ(refusal("7"), name + "index must be an object (byte 1)");
  EXPECT_EQ(refusal("{}"), name + "index has no \"weight_map\"");
  EXPECT_EQ(refusal(""), name + "index ends before its JSON does (byte 0)");
  EXPECT_EQ(refusal_of_map("[]"), name + "\"weight_map\" must be an object (byte 16)");
  EXPECT_EQ(refusal_of_map("null"), name + "\"weight_map\" must be an object (byte 19)");
  EXPECT_EQ(refusal_of_map(R"({"x": 7})"), name + "the file of tensor 'x' must be a string (byte 23)");
  EXPECT_EQ(refusal_of_map(R"({"x": {}})"), name + "the file of tensor 'x' must be a string, got an object (byte 22)");
  EXPECT_EQ(refusal_of_map(R"({"x": "a.safetensors", "x": "b.safetensors"})"),
            name + "tensor 'x' is listed twice (byte 41)");
  EXPECT_EQ(refusal(R"({"weight_map": {}, "weight_map": {}})"), name + "\"weight_map\" is given twice (byte 31)");
  EXPECT_EQ(refusal("{\"a\": " + std::string(40, '[')), name + "index is nested deeper than 32 levels (byte 38)");
}

TEST_F(SafetensorsSetTest, AnIndexTooLargeIsNotRead) {
  folder_.write(kIndexName, "{}");
  std::filesystem::resize_file(folder_.file(kIndexName), (std::size_t{32} << 20) + 1);
  EXPECT_EQ(message_of([&] { SafetensorsSet(folder_.path()); }),
            folder_.file(kIndexName) + ": file has 33554433 bytes, more than the 33554432 that are read");
}

}  // namespace
}  // namespace headwise
