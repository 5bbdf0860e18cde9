// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string content(const NamedTensor& tensor) { return {reinterpret_cast<const char*>(tensor.data), tensor.bytes()}; }

TEST(Safetensors, AFileWrittenByHandIsReadAsItStands) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "hand.safetensors",
      safetensors_bytes(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                        R"("n":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}   )",
                        bytes_of<float>({1.5F, -2.0F}) + bytes_of<std::int64_t>({7})));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const NamedTensor w = file.tensor("w");
  EXPECT_EQ(w.dtype, DType::kFloat32);
  EXPECT_THAT(w.shape, ElementsAre(1, 2));
  EXPECT_EQ(content(w), bytes_of<float>({1.5F, -2.0F}));
  EXPECT_THAT(file.tensor("n").shape, IsEmpty());
  EXPECT_EQ(content(file.tensor("n")), bytes_of<std::int64_t>({7}));
  EXPECT_EQ(file.tensors().size(), 2U);
}

TEST(Safetensors, DataMayBeUnaligned) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("odd.safetensors", safetensors_bytes(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                                        R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                                                        "x" + bytes_of<float>({3.25F})));
  const SafetensorsFile file(path);
  EXPECT_EQ(content(file.tensor("f")), bytes_of<float>({3.25F}));
}

TEST(Safetensors, EmptyTensorsAndEmptyFilesAreLegal) {
  const TemporaryFolder folder;
  EXPECT_THAT(SafetensorsFile(folder.write("a", safetensors_bytes("{}"))).tensors(), IsEmpty());
  const SafetensorsFile file(
      folder.write("b", safetensors_bytes(R"({"z":{"dtype":"F32","shape":[0,9],"data_offsets":[0,0]}})")));
  EXPECT_EQ(file.tensor("z").bytes(), 0U);
}

TEST(Safetensors, ATypeThatIsNotReadIsListedAndRefusedByName) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("f8", safetensors_bytes(R"({"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "ab"));
  const SafetensorsFile file(path);
  ASSERT_TRUE(file.contains("q"));
  EXPECT_EQ(file.header().find("q")->type->name, "F8_E4M3");
  EXPECT_EQ(message_of([&] { file.tensor("q"); }),
            path + ": tensor 'q' has dtype F8_E4M3, which headwise does not read (byte 14)");
}

TEST(Safetensors, AMissingTensorIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.write("none", safetensors_bytes("{}"));
  EXPECT_EQ(message_of([&] { SafetensorsFile(path).tensor("w"); }), path + ": there is no tensor 'w'");
}

TEST(Safetensors, WhatIsWrittenIsReadBackBitForBit) {
  const TemporaryFolder folder;
  const std::string floats = bytes_of<float>({1, 2, 3, 4, 5, 6});
  const std::string doubles = bytes_of<double>({0.1, -0.0});
  const std::string flags = bytes_of<bool>({true, false, true});
  const auto tensor = [](std::string name, DType dtype, std::vector<Index> shape, const std::string& data) {
    return NamedTensor{std::move(name), dtype, std::move(shape), as_bytes(data).data()};
  };
  const std::vector<NamedTensor> written{
      tensor("b \"quoted\" \n \xC3\xA9", DType::kFloat32, {2, 3}, floats), tensor("flags", DType::kBool, {3}, flags),
      tensor("a", DType::kFloat64, {2}, doubles), tensor("scalar", DType::kInt32, {}, floats),
      tensor("none", DType::kFloat16, {3, 0, 5}, floats)};
  const std::map<std::string, std::string> metadata{{"heads", "12"}, {"note", "line\nbreak"}};
  const std::string path = folder.file("out.safetensors");
  write_safetensors(path, written, metadata);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), written.size());
  for (const NamedTensor& expected : written) {
    const NamedTensor got = file.tensor(expected.name);
    EXPECT_EQ(got.dtype, expected.dtype) << expected.name;
    EXPECT_EQ(got.shape, expected.shape) << expected.name;
    EXPECT_EQ(content(got), content(expected)) << expected.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.data) % dtype_bytes(got.dtype), 0U) << expected.name;
  }
}

TEST(Safetensors, EqualContentsGiveEqualFilesInWhateverOrder) {
  const TemporaryFolder folder;
  const std::string data = bytes_of<float>({1, 2});
  std::vector<NamedTensor> tensors{{"a", DType::kFloat32, {1}, as_bytes(data).data()},
                                   {"b", DType::kFloat32, {2}, as_bytes(data).data()},
                                   {"c", DType::kUint8, {3}, as_bytes(data).data()}};
  write_safetensors(folder.file("one"), tensors);
  std::swap(tensors[0], tensors[2]);
  write_safetensors(folder.file("two"), tensors);
  EXPECT_EQ(folder.read("one"), folder.read("two"));
  EXPECT_EQ(folder.read("one").substr(8, 64), R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtyp)");
}

TEST(Safetensors, NamesThatNoFileMayHoldAreRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const std::string data = bytes_of<float>({1});
  const auto write = [&](const std::vector<std::string>& names) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : names) tensors.push_back({name, DType::kFloat32, {1}, as_bytes(data).data()});
    return message_of([&] { write_safetensors(folder.file("bad"), tensors); });
  };
  EXPECT_EQ(write({"a", "b", "a"}), "write_safetensors: tensor 'a' is given twice");
  EXPECT_EQ(write({""}), "write_safetensors: '' cannot be the name of a tensor");
  EXPECT_EQ(write({"__metadata__"}), "write_safetensors: '__metadata__' cannot be the name of a tensor");
  EXPECT_EQ(write({"a\xFF"}), "write_safetensors: 'a\\xff' is not UTF-8");
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Safetensors, AMissingFileAndAFolderAreRefusedByName) {
  const TemporaryFolder folder;
  EXPECT_THROW(SafetensorsFile(folder.file("absent")), FileNotFound);
  EXPECT_EQ(message_of([&] { SafetensorsFile file(folder.file("absent")); }), folder.file("absent") + ": no such file");
  EXPECT_EQ(message_of([&] { SafetensorsFile file(folder.path()); }), folder.path() + ": is a directory, not a file");
}

}  // namespace
}  // namespace headwise
