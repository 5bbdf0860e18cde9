// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "headwise/io/file_error.h"
#include "headwise/io/npz_archive.h"
#include "headwise/tensor/errors.h"
#include "tests/fuzz/npz_fuzz.h"
#include "tests/hostile/npz_lies.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/zip_bytes.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string content(const NamedTensor& tensor) { return {reinterpret_cast<const char*>(tensor.data), tensor.bytes()}; }

// Every array of an archive, as a program would read them.
void read_all(const std::string& bytes) {
  const NpzArchive archive("f", as_bytes(bytes));
  for (const std::string& name : archive.names()) {
    archive.header(name);
    archive.array(name);
  }
}

TEST(Npz, EveryLieIsRefusedWithItsOwnMessage) {
  for (const Lie& lie : npz_lies()) EXPECT_EQ(message_of([&] { read_all(lie.file); }), lie.message) << lie.what;
}

TEST(Npz, ThereAreMoreThanSeventyLies) { EXPECT_GE(npz_lies().size(), 70U); }

TEST(Npz, EveryPrefixOfAGoodFileAndOfEveryLieIsRefusedOrRead) {
  std::vector<std::string> files{one_array(), deflated_array(""), two_arrays()};
  for (const Lie& lie : npz_lies()) files.push_back(lie.file.substr(0, 4096));
  for (const std::string& file : files) {
    for (std::size_t size = 0; size <= file.size(); ++size) {
      const std::vector<std::uint8_t> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      npz_fuzz::fuzz_one(cut.data(), cut.size());
    }
  }
}

TEST(Npz, EveryChangedByteOfAGoodFileIsRefusedOrRead) {
  for (const std::string& good : {one_array().bytes(), deflated_array("").bytes()}) {
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; value += good[at] == 'P' ? 1 : 3) {
        std::vector<std::uint8_t> changed(good.begin(), good.end());
        changed[at] = static_cast<std::uint8_t>(value);
        npz_fuzz::fuzz_one(changed.data(), changed.size());
      }
    }
  }
}

TEST(Npz, StoredArraysBorrowFromTheFileAndDeflatedOnesAreUnpacked) {
  const TemporaryFolder folder;
  const NpzFile stored(folder.write("s.npz", one_array().bytes()));
  EXPECT_THAT(stored.names(), ElementsAre("x"));
  EXPECT_TRUE(stored.contains("x"));
  EXPECT_FALSE(stored.contains("x.npy"));
  const NpzArray array = stored.array("x");
  EXPECT_EQ(array.tensor().name, "x");
  EXPECT_EQ(array.tensor().dtype, DType::kFloat32);
  EXPECT_THAT(array.tensor().shape, ElementsAre(1, 2));
  EXPECT_EQ(content(array.tensor()), "12345678");
  const NpzFile packed(folder.write("d.npz", deflated_array("").bytes()));
  EXPECT_THAT(packed.header("x").shape, ElementsAre(1, 2));
  EXPECT_EQ(content(packed.array("x").tensor()), "12345678");
  EXPECT_EQ(message_of([&] { packed.array("w"); }), folder.file("d.npz") + ": there is no array 'w'");
}

TEST(Npz, FortranOrderIsHandedOutInCOrder) {
  const std::string dict = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n";
  for (const unsigned method : {0U, 8U}) {
    const Zip zip({{"x.npy", npy_bytes(dict, std::string("\1\4\2\5\3\6")), method}});
    EXPECT_EQ(content(NpzArchive("f", as_bytes(zip.bytes())).array("x").tensor()), "\1\2\3\4\5\6");
  }
}

// Read as numpy wrote them: dynamic Huffman codes, the zip64 fields of its local headers.
TEST(Npz, AFileThatNumpyCompressedIsReadWhole) {
  const NpzFile file(HEADWISE_SOURCE_DIR "/tests/data/minilm_expected.npz");
  EXPECT_EQ(file.names().size(), 160U);
  for (const std::string& name : file.names()) {
    const NpzArray array = file.array(name);
    EXPECT_EQ(array.tensor().shape, file.header(name).shape) << name;
  }
  EXPECT_EQ(file.header("weights.19").dtype, DType::kFloat32);
  std::int64_t first = 0;
  const NpzArray ids = file.array("ids.0");
  std::memcpy(&first, ids.tensor().data, sizeof(first));
  EXPECT_EQ(first, 101);
}

TEST(Npz, Zip64RecordsAndSizesBehindTheDataAreRead) {
  const std::string body = npz_content(), sum = little_endian_bytes(slow_checksum(body), 4);
  const std::string size = little_endian_bytes(body.size(), 4), wide = little_endian_bytes(body.size(), 8);
  const auto is_read = [](const Zip& zip) {
    return content(NpzArchive("f", as_bytes(zip.bytes())).array("x").tensor()) == "12345678";
  };
  for (const std::string& behind :
       {sum + size + size, "PK\7\x08" + sum + size + size, sum + wide + wide, "PK\7\x08" + sum + wide + wide}) {
    Zip zip({{"x.npy", body, 0, 8, "", "", "", behind}});
    EXPECT_TRUE(is_read(zip)) << behind.size();
    EXPECT_TRUE(is_read(zip.local(14, 0, 4).local(18, 0, 4).local(22, 0, 4))) << behind.size();
  }
  Zip wide_sizes({{"x.npy", body, 0, 0, "", zip64_extra_bytes({78, 78}), zip64_extra_bytes({78, 78, 0})}});
  wide_sizes.local(18, 0xFFFFFFFF, 4).local(22, 0xFFFFFFFF, 4);
  EXPECT_TRUE(is_read(wide_sizes.entry(20, 0xFFFFFFFF, 4).entry(24, 0xFFFFFFFF, 4).entry(42, 0xFFFFFFFF, 4)));
  Zip wide_end = one_array();
  wide_end.before_end(zip64_end_bytes(1, wide_end.directory_at(), wide_end.end_at()));
  EXPECT_TRUE(is_read(wide_end));
  EXPECT_TRUE(is_read(wide_end.end(8, 0xFFFF, 2).end(10, 0xFFFF, 2).end(12, 0xFFFFFFFF, 4).end(16, 0xFFFFFFFF, 4)));
}

TEST(Npz, WhatIsWrittenIsReadBackAndLiesAsTheFormatSays) {
  const TemporaryFolder folder;
  const std::string floats = bytes_of<float>({1, 2, 3, 4, 5, 6}), doubles = bytes_of<double>({0.5});
  const std::vector<NamedTensor> written{{"layer/context", DType::kFloat32, {2, 3}, as_bytes(floats).data()},
                                         {"\xC3\xA9", DType::kFloat64, {}, as_bytes(doubles).data()},
                                         {"none", DType::kInt64, {0, 4}, nullptr}};
  write_npz(folder.file("a.npz"), written);
  const NpzFile back(folder.file("a.npz"));
  EXPECT_THAT(back.names(), ElementsAre("layer/context", "\xC3\xA9", "none"));
  for (const NamedTensor& expected : written) {
    const NpzArray got = back.array(expected.name);
    EXPECT_EQ(got.tensor().dtype, expected.dtype);
    EXPECT_EQ(got.tensor().shape, expected.shape);
    EXPECT_EQ(content(got.tensor()), content(expected));
  }
  write_npz(folder.file("b.npz"), written);
  EXPECT_EQ(folder.read("a.npz"), folder.read("b.npz"));
  write_npz(folder.file("none.npz"), {});
  EXPECT_THAT(NpzFile(folder.file("none.npz")).names(), IsEmpty());
  EXPECT_EQ(folder.read("none.npz"), Zip({}).bytes());
}

TEST(Npz, NamesThatNoArchiveMayHoldAreRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const std::string data = bytes_of<float>({1});
  const auto write = [&](const std::vector<std::string>& names, DType dtype = DType::kFloat32) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : names) tensors.push_back({name, dtype, {1}, as_bytes(data).data()});
    return message_of([&] { write_npz(folder.file("bad.npz"), tensors); });
  };
  EXPECT_EQ(write({""}), "write_npz: array '' has no name");
  EXPECT_EQ(write({"a", "a"}), "write_npz: array 'a' is given twice");
  EXPECT_EQ(write({"../a"}), "write_npz: array '../a' leads out of its folder");
  EXPECT_EQ(write({"/a"}), "write_npz: array '/a' is an absolute path");
  EXPECT_EQ(write({"\xFF"}), "write_npz: array '\\xff' has a name that is not UTF-8");
  EXPECT_EQ(write({std::string(65532, 'n')}),
            "write_npz: array '" + std::string(80, 'n') + "...' has a name that is too long");
  EXPECT_EQ(write({"a"}, DType::kBFloat16), "write_npz: numpy has no name for bfloat16");
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Npz, AMissingFileAndAFolderAreRefusedByName) {
  const TemporaryFolder folder;
  EXPECT_THROW(NpzFile(folder.file("absent.npz")), FileNotFound);
  EXPECT_EQ(message_of([&] { NpzFile file(folder.path()); }), folder.path() + ": is a directory, not a file");
}

}  // namespace
}  // namespace headwise
