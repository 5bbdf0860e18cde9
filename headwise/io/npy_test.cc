// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"
#include "tests/fuzz/npy_fuzz.h"
#include "tests/hostile/npy_lies.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

using testing::ElementsAre;

std::string content(const NamedTensor& tensor) { return {reinterpret_cast<const char*>(tensor.data), tensor.bytes()}; }

TEST(Npy, EveryLieIsRefusedWithItsOwnMessage) {
  for (const Lie& lie : npy_lies()) {
    EXPECT_EQ(message_of([&] { parse_npy_header("f", as_bytes(lie.file)); }), lie.message) << lie.what;
  }
}

TEST(Npy, EveryPrefixAndEveryChangedByteIsRefusedOrRead) {
  std::vector<std::string> files{npy_bytes(npy_dict("'<f4'"), "12345678"), npy_bytes(npy_dict("'|b1'", "()"), "1", 2)};
  for (const Lie& lie : npy_lies()) files.push_back(lie.file);
  for (const std::string& file : files) {
    for (std::size_t size = 0; size <= file.size(); ++size) {
      const std::vector<std::uint8_t> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      npy_fuzz::fuzz_one(cut.data(), cut.size());
      for (int value : {0, 1, int{'\''}, int{'('}, int{'9'}, 255}) {
        std::vector<std::uint8_t> changed(file.begin(), file.end());
        if (size < changed.size()) changed[size] = static_cast<std::uint8_t>(value);
        npy_fuzz::fuzz_one(changed.data(), changed.size());
      }
    }
  }
}

TEST(Npy, VersionsOneToThreeAreRead) {
  const TemporaryFolder folder;
  for (int version : {1, 2, 3}) {
    const NpyFile file(folder.write("x.npy", npy_bytes(npy_dict("'<f4'"), bytes_of<float>({1, 2}), version)));
    EXPECT_EQ(file.tensor().name, "x");
    EXPECT_EQ(file.tensor().dtype, DType::kFloat32);
    EXPECT_THAT(file.tensor().shape, ElementsAre(2));
    EXPECT_EQ(content(file.tensor()), bytes_of<float>({1, 2}));
  }
}

TEST(Npy, EveryTypeIsRead) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, DType>> types{
      {"|b1", DType::kBool},   {"|i1", DType::kInt8},    {"|u1", DType::kUint8},   {"<i2", DType::kInt16},
      {"<u2", DType::kUint16}, {"<i4", DType::kInt32},   {"<u4", DType::kUint32},  {"<i8", DType::kInt64},
      {"<u8", DType::kUint64}, {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}};
  for (const auto& [descr, dtype] : types) {
    const std::string data(2 * dtype_bytes(dtype), '\1');
    const NpyFile file(folder.write("x.npy", npy_bytes(npy_dict("'" + descr + "'"), data)));
    EXPECT_EQ(file.tensor().dtype, dtype) << descr;
    EXPECT_EQ(content(file.tensor()), data) << descr;
  }
}

TEST(Npy, FortranOrderIsHandedOutInCOrder) {
  const TemporaryFolder folder;
  // The array [[1, 2, 3], [4, 5, 6]], column by column.
  const NpyFile flat(
      folder.write("f.npy", npy_bytes(npy_dict("'<f4'", "(2, 3)", "True"), bytes_of<float>({1, 4, 2, 5, 3, 6}))));
  EXPECT_EQ(content(flat.tensor()), bytes_of<float>({1, 2, 3, 4, 5, 6}));
  // Element (i, j, k) of shape (2, 2, 2) is 4 i + 2 j + k; in Fortran order i runs fastest.
  const NpyFile cube(
      folder.write("c.npy", npy_bytes(npy_dict("'|u1'", "(2, 2, 2)", "True"), std::string("\0\4\2\6\1\5\3\7", 8))));
  EXPECT_EQ(content(cube.tensor()), std::string("\0\1\2\3\4\5\6\7", 8));
}

TEST(Npy, ScalarsAndEmptyArraysAreLegal) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      NpyFile(folder.write("s.npy", npy_bytes(npy_dict("'<f8'", "()"), bytes_of<double>({2.5})))).tensor().bytes(), 8U);
  EXPECT_EQ(NpyFile(folder.write("e.npy", npy_bytes(npy_dict("'<f8'", "(0, 4)", "True")))).tensor().bytes(), 0U);
}

TEST(Npy, WhatIsWrittenIsReadBackAndLiesAsNumpyWritesIt) {
  const TemporaryFolder folder;
  const std::string data = bytes_of<float>({1, 2, 3, 4, 5, 6});
  write_npy(folder.file("out.npy"), {"out", DType::kFloat32, {2, 3}, as_bytes(data).data()});
  const std::string file = folder.read("out.npy");
  EXPECT_EQ(file.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(file.substr(10, 59), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ(file.substr(69, 58), std::string(58, ' '));
  EXPECT_EQ(file.substr(127), "\n" + data);
  const NpyFile back(folder.file("out.npy"));
  EXPECT_THAT(back.tensor().shape, ElementsAre(2, 3));
  EXPECT_EQ(content(back.tensor()), data);
}

TEST(Npy, BFloat16HasNoNameInNumpy) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of([&] {
              write_npy(folder.file("x.npy"), {"x", DType::kBFloat16, {1}, nullptr});
            }),
            "write_npy: numpy has no name for bfloat16");
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace headwise
