// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/zip_bytes.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string content(const NamedTensor& tensor) { return {reinterpret_cast<const char*>(tensor.data), tensor.bytes()}; }

TEST(ArrayFile, EachFormatIsReadByItsEndingAndGivesTheSame) {
  const TemporaryFolder folder;
  const std::string data = bytes_of<double>({1, 2, 3});
  for (const char* name : {"x.npy", "x.npz", "x.safetensors"}) {
    const std::vector<NamedTensor> arrays{{"x", DType::kFloat64, {1, 3}, as_bytes(data).data()}};
    write_arrays(folder.file(name), arrays);
    ArrayFile file(folder.file(name));
    EXPECT_EQ(file.path(), folder.file(name));
    EXPECT_THAT(file.names(), ElementsAre("x"));
    EXPECT_EQ(file.facts("x").dtype, DType::kFloat64);
    EXPECT_THAT(file.facts("x").shape, ElementsAre(1, 3));
    EXPECT_EQ(content(file.array("x")), data) << name;
  }
}

TEST(ArrayFile, UnpackedArraysLiveAsLongAsTheFileIsOpen) {
  const TemporaryFolder folder;
  const auto array = [](const std::string& data) {
    return npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\n", data);
  };
  ArrayFile file(folder.write("two.npz", Zip({{"a.npy", array("p"), 8}, {"b.npy", array("q"), 8}}).bytes()));
  const NamedTensor a = file.array("a"), b = file.array("b");
  EXPECT_EQ(content(a), "p");
  EXPECT_EQ(content(b), "q");
}

TEST(ArrayFile, AnUnknownNameOrEndingIsRefused) {
  const TemporaryFolder folder;
  const std::string data = bytes_of<float>({1});
  const std::vector<NamedTensor> arrays{{"x", DType::kFloat32, {1}, as_bytes(data).data()},
                                        {"y", DType::kFloat32, {1}, as_bytes(data).data()}};
  const std::string endings = " must end in .npy, .npz or .safetensors";
  EXPECT_EQ(message_of([&] { ArrayFile file(folder.file("x.txt")); }),
            folder.file("x.txt") + ": the name of a file of arrays" + endings);
  EXPECT_EQ(message_of([&] { write_arrays("x.txt", arrays); }),
            "write_arrays: the name of a file of arrays" + endings + ", got 'x.txt'");
  EXPECT_EQ(message_of([&] { write_arrays(folder.file("x.npy"), arrays); }),
            "write_arrays: an npy file holds one array, got 2");
  EXPECT_THAT(folder.names(), IsEmpty());
  const std::string path = folder.file("x.npy");
  write_npy(path, arrays[0]);
  EXPECT_EQ(message_of([&] { ArrayFile(path).array("y"); }), path + ": there is no array 'y'; it holds 'x' alone");
}

}  // namespace
}  // namespace headwise
