// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"
#include "tests/fuzz/npy_fuzz.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

using testing::ElementsAre;

std::string content(const NamedTensor& tensor) { return {reinterpret_cast<const char*>(tensor.data), tensor.bytes()}; }

struct Lie {
  const char* what;
  std::string file;
  std::string message;
};

std::string dict(const std::string& descr, const std::string& shape = "(2,)", const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::vector<Lie> container_lies() {
  const std::string good = dict("'<f4'");
  return {
      {"an empty file", "", "f: does not start with \\x93NUMPY: not an npy file (byte 0)"},
      {"another format", "PK\x03\x04 and more", "f: does not start with \\x93NUMPY: not an npy file (byte 0)"},
      {"the magic alone", "\x93NUMPY", "f: file ends inside its npy header (byte 6)"},
      {"version 4", npy_bytes(good, "12345678", 4),
       "f: npy version 4.0 is unknown; headwise reads 1.0, 2.0 and 3.0 (byte 6)"},
      {"version 0", npy_bytes(good, "12345678", 0),
       "f: npy version 0.0 is unknown; headwise reads 1.0, 2.0 and 3.0 (byte 6)"},
      {"version 2 without a length", std::string("\x93NUMPY\x02\x00\x01\x00", 10),
       "f: file ends inside its npy header (byte 10)"},
      {"a length past the file", std::string("\x93NUMPY\x01\x00\xFF\x7F{}", 12),
       "f: header length 32767 is more than the 2 bytes that follow it (byte 8)"},
      {"a length of 2^32 - 1", std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{}", 14),
       "f: header length 4294967295 is more than the 65536 bytes that are read (byte 8)"},
      {"too few elements", npy_bytes(good, "1234567"),
       "f: float32 of shape (2,) needs 8 bytes, the file has 7 (byte 68)"},
      {"too many elements", npy_bytes(good, "123456789"),
       "f: float32 of shape (2,) needs 8 bytes, the file has 9 (byte 68)"},
      {"a product that wraps", npy_bytes(dict("'<f4'", "(4294967296, 4294967296)"), ""),
       "f: float32 of shape (4294967296, 4294967296) is larger than any file (byte 10)"},
  };
}

std::vector<Lie> dict_lies() {
  const auto file = [](const std::string& text) { return npy_bytes(text, "12345678"); };
  return {
      {"no dict", file("hello"), "f: header must have '{' here, got 'h' (byte 10)"},
      {"an empty header", file(""), "f: header ends where '{' should stand (byte 10)"},
      {"an empty dict", file("{}"), "f: header has no 'descr' (byte 12)"},
      {"no order", file("{'descr': '<f4', 'shape': (2,)}"), "f: header has no 'fortran_order' (byte 41)"},
      {"no shape", file("{'descr': '<f4', 'fortran_order': False}"), "f: header has no 'shape' (byte 50)"},
      {"an unfinished dict", file("{'descr': '<f4'"), "f: header ends where '}' should stand (byte 25)"},
      {"an unfinished string", file("{'descr"), "f: a key of the header is a string without an end (byte 11)"},
      {"a key without quotes", file("{descr: 1}"), "f: a key of the header must be a string (byte 11)"},
      {"a key twice", file("{'descr': '<f4', 'descr': '<f4'}"), "f: header has 'descr' twice (byte 34)"},
      {"an unknown key", file("{'magic': 1}"), "f: header has an unknown key 'magic' (byte 18)"},
      {"a missing colon", file("{'descr' '<f4'}"), "f: header must have ':' here, got ''' (byte 19)"},
      {"a call", file(dict("__import__('os')")), "f: 'descr' must be a string (byte 20)"},
      {"text behind the dict", file(dict("'<f4'") + "x"), "f: header goes on behind its dict (byte 68)"},
      {"an order that is a number", file(dict("'<f4'", "(2,)", "0")),
       "f: 'fortran_order' must be True or False (byte 44)"},
      {"a shape that is a number", file(dict("'<f4'", "2")), "f: 'shape' must be a tuple (byte 60)"},
      {"a shape that is a list", file(dict("'<f4'", "[2]")), "f: 'shape' must be a tuple (byte 60)"},
      {"a number in brackets", file(dict("'<f4'", "(2)")),
       "f: 'shape' must be a tuple, got a number in brackets (byte 63)"},
      {"a negative extent", file(dict("'<f4'", "(-2,)")), "f: 'shape' must hold whole numbers (byte 61)"},
      {"a fractional extent", file(dict("'<f4'", "(2.0,)")), "f: header must have ')' here, got '.' (byte 62)"},
      {"an extent of 2^63", file(dict("'<f4'", "(9223372036854775808,)")),
       "f: 'shape' holds a number that does not fit into 63 bits (byte 79)"},
      {"an unfinished shape", file("{'shape': (2,"), "f: 'shape' must hold whole numbers (byte 23)"},
      {"a comma alone", file(dict("'<f4'", "(,)")), "f: 'shape' must hold whole numbers (byte 61)"},
      {"seventeen axes", file(dict("'<f4'", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)")),
       "f: 'shape' has more than 16 axes (byte 93)"},
  };
}

std::vector<Lie> type_lies() {
  const auto file = [](const std::string& descr) { return npy_bytes(dict(descr), "12345678"); };
  const auto unread = [](const std::string& descr, int byte) {
    return "f: dtype '" + descr +
           "' is not one that headwise reads: b1, i1 to i8, u1 to u8, f2, f4, f8, little-endian (byte " +
           std::to_string(byte) + ")";
  };
  return {
      {"big-endian floats", file("'>f4'"), "f: dtype '>f4' is big-endian; save the array as '<f4' (byte 25)"},
      {"big-endian integers", file("'>i8'"), "f: dtype '>i8' is big-endian; save the array as '<i8' (byte 25)"},
      {"Python objects", file("'|O'"), unread("|O", 24)},
      {"text", file("'<U5'"), unread("<U5", 25)},
      {"bytes", file("'|S3'"), unread("|S3", 25)},
      {"complex numbers", file("'<c8'"), unread("<c8", 25)},
      {"dates", file("'<M8[ns]'"), unread("<M8[ns]", 29)},
      {"a long double", file("'<f16'"), unread("<f16", 26)},
      {"no type", file("''"), unread("", 22)},
      {"an unknown byte order", file("'?f4'"), unread("?f4", 25)},
      {"a structured type", file("[('x', '<f4')]"),
       "f: the array has a structured dtype; headwise reads plain numbers (byte 20)"},
  };
}

std::vector<Lie> all_lies() {
  std::vector<Lie> all;
  for (auto part : {container_lies(), dict_lies(), type_lies()}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Npy, EveryLieIsRefusedWithItsOwnMessage) {
  for (const Lie& lie : all_lies()) {
    EXPECT_EQ(message_of([&] { parse_npy_header("f", as_bytes(lie.file)); }), lie.message) << lie.what;
  }
}

TEST(Npy, EveryPrefixAndEveryChangedByteIsRefusedOrRead) {
  std::vector<std::string> files{npy_bytes(dict("'<f4'"), "12345678"), npy_bytes(dict("'|b1'", "()"), "1", 2)};
  for (const Lie& lie : all_lies()) files.push_back(lie.file);
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
    const NpyFile file(folder.write("x.npy", npy_bytes(dict("'<f4'"), bytes_of<float>({1, 2}), version)));
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
    const NpyFile file(folder.write("x.npy", npy_bytes(dict("'" + descr + "'"), data)));
    EXPECT_EQ(file.tensor().dtype, dtype) << descr;
    EXPECT_EQ(content(file.tensor()), data) << descr;
  }
}

TEST(Npy, FortranOrderIsHandedOutInCOrder) {
  const TemporaryFolder folder;
  // The array [[1, 2, 3], [4, 5, 6]], column by column.
  const NpyFile flat(
      folder.write("f.npy", npy_bytes(dict("'<f4'", "(2, 3)", "True"), bytes_of<float>({1, 4, 2, 5, 3, 6}))));
  EXPECT_EQ(content(flat.tensor()), bytes_of<float>({1, 2, 3, 4, 5, 6}));
  // Element (i, j, k) of shape (2, 2, 2) is 4 i + 2 j + k; in Fortran order i runs fastest.
  const NpyFile cube(
      folder.write("c.npy", npy_bytes(dict("'|u1'", "(2, 2, 2)", "True"), std::string("\0\4\2\6\1\5\3\7", 8))));
  EXPECT_EQ(content(cube.tensor()), std::string("\0\1\2\3\4\5\6\7", 8));
}

TEST(Npy, ScalarsAndEmptyArraysAreLegal) {
  const TemporaryFolder folder;
  EXPECT_EQ(NpyFile(folder.write("s.npy", npy_bytes(dict("'<f8'", "()"), bytes_of<double>({2.5})))).tensor().bytes(),
            8U);
  EXPECT_EQ(NpyFile(folder.write("e.npy", npy_bytes(dict("'<f8'", "(0, 4)", "True")))).tensor().bytes(), 0U);
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
