// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/zip_records.h"

#include <gtest/gtest.h>

#include <string>

#include "headwise/io/zip_fields.h"
#include "headwise/io/zip_unpack.h"
#include "tests/support/file_bytes.h"
#include "tests/support/zip_bytes.h"

namespace headwise {
namespace {

std::uint64_t field(const std::string& record, std::size_t at, unsigned width) {
  return zip_number(as_bytes(record), at, width);
}

ZipMember member_of(std::uint64_t bytes, std::uint64_t local_at) {
  ZipMember member;
  member.name = "x.npy";
  member.checksum = 0x12345678;
  member.bytes = bytes;
  member.local_at = local_at;
  return member;
}

TEST(ZipRecords, AMemberOf4GiBHasZip64FieldsAndASmallOneNone) {
  const std::uint64_t large = std::uint64_t{5} << 30;
  EXPECT_EQ(zip_local_record(member_of(78, 0)).size(), kZipLocalBytes + 5);
  EXPECT_EQ(zip_local_record(member_of(0xFFFFFFFE, 0)).size(), kZipLocalBytes + 5);
  const std::string local = zip_local_record(member_of(large, 0));
  EXPECT_EQ(field(local, 22, 4), kZipElsewhere32);
  EXPECT_EQ(local.substr(kZipLocalBytes), "x.npy" + zip64_extra_bytes({large, large}));
  EXPECT_EQ(zip_entry_record(member_of(large, 0)).substr(kZipEntryBytes), "x.npy" + zip64_extra_bytes({large, large}));
  EXPECT_EQ(zip_entry_record(member_of(78, large)).substr(kZipEntryBytes), "x.npy" + zip64_extra_bytes({large}));
  EXPECT_EQ(zip_entry_record(member_of(large, large)).substr(kZipEntryBytes),
            "x.npy" + zip64_extra_bytes({large, large, large}));
  EXPECT_EQ(field(zip_entry_record(member_of(0xFFFFFFFF, 0)), 24, 4), kZipElsewhere32);
}

TEST(ZipRecords, TheEndOfALongArchiveHasAZip64Record) {
  EXPECT_EQ(zip_end_record(3, 100, 200).size(), kZipEndBytes);
  const std::uint64_t far = std::uint64_t{6} << 30;
  for (const std::string& end : {zip_end_record(3, far, far + 100), zip_end_record(70'000, 100, 200)}) {
    ASSERT_EQ(end.size(), kZip64EndBytes + kZip64LocatorBytes + kZipEndBytes);
    EXPECT_EQ(field(end, 0, 4), kZip64EndSignature);
    EXPECT_EQ(field(end, kZip64EndBytes, 4), kZip64LocatorSignature);
  }
  const std::string end = zip_end_record(70'000, far, far + 100);
  EXPECT_EQ(field(end, 32, 8), 70'000U);
  EXPECT_EQ(field(end, 48, 8), far);
  EXPECT_EQ(field(end, kZip64EndBytes + 8, 8), far + 100);
  EXPECT_EQ(field(end, kZip64EndBytes + kZip64LocatorBytes + 16, 4), kZipElsewhere32);
}

TEST(ZipRecords, TheChecksumIsCrc32AndCanBeContinued) {
  EXPECT_EQ(zip_checksum(as_bytes("123456789")), 0xCBF43926U);
  EXPECT_EQ(zip_checksum(as_bytes("56789"), zip_checksum(as_bytes("1234"))), 0xCBF43926U);
  EXPECT_EQ(slow_checksum("123456789"), 0xCBF43926U);
}

}  // namespace
}  // namespace headwise
